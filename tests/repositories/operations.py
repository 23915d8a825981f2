"""Operations on repositories as Hypothesis draws them: any, also such as cannot be, on few names."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from metajournal.domains.repositories import events as e
from metajournal.domains.repositories.urns import branch_urn, commit_urn, repository_urn
from tests.repositories.plain_model import Branch, Refs

REPOSITORIES = ("r1", "r2")
BRANCHES = ("main", "dev/x", "_tx/1")
PATHS = ("a", "a/b", "ä", "x y", "a//b", "z")
UNKNOWN = "ff" * 32


@st.composite
def operations(draw: st.DrawFn, refs: Refs) -> Any:
    """An event that has its form; most of them speak of what is there.

    Args:
        refs: what is there.
    """
    repository = draw(st.sampled_from(REPOSITORIES))
    branch = branch_urn(repository, draw(st.sampled_from(BRANCHES)))
    known = refs.repositories.get(repository)
    # What is not there comes last: Hypothesis shrinks towards the first.
    commits = sorted(known.commits) if known is not None else []
    commit = commit_urn(repository, draw(st.sampled_from([*commits, UNKNOWN])))
    there = _branch(refs, repository, branch.parts[1])
    head = draw(st.sampled_from([None, there.head, "", UNKNOWN]))
    digest = draw(st.sampled_from([None, there.digest, "11" * 16]))
    paths = draw(st.lists(st.sampled_from(PATHS), min_size=1, max_size=3, unique=True))
    kind = draw(st.sampled_from([*"wwwwccccmmmmmbbbtxxor", "registered", "unregistered", "new", "new", "gone"]))
    other = draw(st.sampled_from([name for name in BRANCHES if name != branch.parts[1]]))
    match kind:
        case "w":
            return e.ObjectsWritten(branch, draw(_several_entries()))
        case "x":
            return e.ObjectsDeleted(branch, paths)
        case "c":
            return e.Committed(branch, draw(st.sampled_from(["", "m"])), {"k": "v"}, head, digest, draw(st.booleans()))
        case "m":
            return merged(draw, refs, repository, branch.parts[1], other)
        case "b":
            return e.BranchCreated(branch, draw(st.sampled_from([None, commit])))
        case "t":
            return e.BranchDeleted(branch, head)
        case "r":
            where = draw(st.sampled_from([{}, {"path": paths[0]}, {"prefix": paths[0]}]))
            return e.BranchReset(branch, **where, staging_digest=digest, expected_head=head)
        case "o":
            return e.BranchReverted(branch, commit, head)
        case "registered" | "unregistered":
            named = [path for path in paths if "//" not in path] or ["a"]
            return (e.ObjectsRegistered if kind == "registered" else e.ObjectsUnregistered)(
                repository_urn(repository), named
            )
        case "new":
            return e.RepositoryCreated(repository_urn(repository), draw(st.sampled_from(["main", "dev/x"])), "s3://b")
        case _:
            return e.RepositoryDeleted(repository_urn(repository))


def merged(draw: st.DrawFn, refs: Refs, repository: str, destination: str, source: str) -> e.Merged:
    """A merge of two branches, most often of where they are."""
    into, taken = _branch(refs, repository, destination), _branch(refs, repository, source)
    staged = draw(st.sampled_from(["refuse", "resolve"]))
    digest = draw(st.sampled_from([into.digest, into.digest, "11" * 16]))
    return e.Merged(
        branch_urn(repository, source),
        branch_urn(repository, destination),
        draw(st.sampled_from([taken.head, taken.head, taken.head, UNKNOWN])),
        draw(st.sampled_from([into.head, into.head, into.head, UNKNOWN])),
        draw(st.sampled_from(e.STRATEGIES)),
        staged,
        digest if staged == "resolve" else None,
    )


@st.composite
def entries(draw: st.DrawFn) -> e.Entry:
    """An object of few contents."""
    path = draw(st.sampled_from(PATHS))
    in_blocks = draw(st.booleans())
    return e.Entry(
        path,
        draw(st.integers(0, 2)),
        draw(st.sampled_from(["c1", "c2"])),
        None if in_blocks else "at",
        (e.Block("one", 1, "x"), e.Block("two", 0, "y")) if in_blocks else (),
        draw(st.sampled_from([None, "text/csv"])),
        draw(st.sampled_from([{}, {"k": "ß"}])),
        draw(st.sampled_from([None, -1, 1_700_000_000_000])),
    )


def _several_entries() -> st.SearchStrategy[list[e.Entry]]:
    return st.lists(entries(), min_size=1, max_size=3, unique_by=lambda entry: entry.path)


def _branch(refs: Refs, repository: str, name: str) -> Branch:
    known = refs.repositories.get(repository)
    return known.branches.get(name, Branch("")) if known is not None else Branch("")
