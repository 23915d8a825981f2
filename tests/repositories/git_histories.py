"""Histories that git keeps, made from a seed by `git fast-import`, and what git itself says of any."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ODD = [
    'say "hi"',
    "two\nlines",
    "\ttab",
    "שלום",
    "naïve/ü",
    "日本/語",
    "back\\slash",
    " lead",
    "trail ",
    "-dash",
    "a:b*?",
]
Tree = dict[str, tuple[str, str]]
"""Mode and content, by path."""


def git(folder: Path, *words: str, given: bytes = b"") -> bytes:
    """What a command of git prints."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    own |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    done = subprocess.run(["git", "-C", str(folder), *words], input=given, capture_output=True, check=False, env=own)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def listing(folder: Path, commit: str) -> dict[str, tuple[str, str]]:
    """Mode and blob of each path of a commit."""
    found = {}
    for line in git(folder, "ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]:
        described, _, path = line.partition(b"\t")
        mode, _, blob = described.decode().split(" ")
        found[path.decode()] = (mode, blob)
    return found


def parents_of(folder: Path, *tips: str) -> dict[str, list[str]]:
    """The parents of each commit, each after its parents."""
    lines = git(folder, "rev-list", "--topo-order", "--reverse", "--parents", *tips).decode().splitlines()
    return {commit: parents for commit, *parents in (line.split(" ") for line in lines)}


def bases(folder: Path, left: str, right: str) -> set[str]:
    """The merge bases of two commits; none where they have nothing in common."""
    command = ["git", "-C", str(folder), "merge-base", "--all", left, right]
    return {*subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()}


def heads(folder: Path) -> dict[str, str]:
    """The commit of each local branch."""
    lines = git(folder, "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads").decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines)


def clone(source: Path, folder: Path, branches: Mapping[str, str]) -> Path:
    """A clone, without its own objects, that has these branches alone."""
    git(source, "clone", "--quiet", "--bare", "--shared", ".", str(folder))
    for name in [*heads(folder), *branches]:
        word = ["update-ref", f"refs/heads/{name}", branches[name]] if name in branches else ["branch", "-D", name]
        git(folder, *word)
    git(folder, "symbolic-ref", "HEAD", f"refs/heads/{next(iter(branches))}")  # the source may be on no branch
    return folder


def commit_tree(folder: Path, tree: str, parents: Sequence[str], message: str) -> str:
    """Make a commit of a tree that there is; gives its id."""
    who = ["-c", "user.name=n", "-c", "user.email=e"]
    named = [word for parent in parents for word in ("-p", parent)]
    return git(folder, *who, "commit-tree", tree, *named, "-m", message).decode().strip()


@dataclass
class Writer:
    """Writes commits in the order in which it is told, as a stream that `git fast-import` reads."""

    trees: list[Tree] = field(default_factory=list)
    _stream: list[bytes] = field(default_factory=list)

    def commit(
        self,
        tree: Tree,
        parents: Sequence[int] = (),
        *,
        message: str = "",
        author: str = "A U Thor <author@example.org>",
        when: str = "1700000000 +0000",
    ) -> int:
        """One more commit; gives its number, by which others name it as a parent."""
        number = len(self.trees)
        text = (message or f"commit {number}").encode()
        stamp = f"committer C O Mitter <c@example.org> {1_700_000_000 + number} +0200\n"
        # A branch of its own for each: fast-import moves one only to what descends from where it was.
        self._say(f"commit refs/work/{number}\nmark :{number + 1}\nauthor {author} {when}\n{stamp}")
        self._data(text)
        for word, parent in zip(["from", *["merge"] * 9], parents, strict=False):
            self._say(f"{word} :{parent + 1}\n")
        self._say("deleteall\n")
        for path, (mode, content) in tree.items():
            if mode == "160000":
                self._say(f"M {mode} {content} {_quoted(path)}\n")
            else:
                self._say(f"M {mode} inline {_quoted(path)}\n")
                self._data(content.encode())
        self.trees.append(tree)
        return number

    def save(self, folder: Path, branches: Mapping[str, int], head: str = "main") -> None:
        """Make the git repository, with these branches."""
        folder.mkdir(parents=True, exist_ok=True)
        git(folder, "init", "--quiet", f"--initial-branch={head}")
        for name, number in branches.items():
            self._say(f"reset refs/heads/{name}\nfrom :{number + 1}\n\n")
        git(folder, "fast-import", "--quiet", "--force", given=b"".join(self._stream))
        work = git(folder, "for-each-ref", "--format=delete %(refname)", "refs/work")
        git(folder, "update-ref", "--stdin", given=work)

    def _say(self, text: str) -> None:
        self._stream.append(text.encode("utf-8", "surrogateescape"))

    def _data(self, content: bytes) -> None:
        self._stream.append(b"data %d\n%s\n" % (len(content), content))


def _quoted(path: str) -> str:
    """A path as fast-import reads any."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
    return '"' + "".join(escapes.get(sign, sign) for sign in path) + '"'


def changed(tree: Tree, rng: random.Random) -> Tree:
    """A tree after a few changes: written, deleted, renamed, of another mode, a file that becomes a folder."""
    made = dict(tree)
    for _ in range(rng.randint(1, 4)):
        path = rng.choice([*made, None, None]) if made else None
        match rng.choice("wwwwdrmf"):
            case "w":
                named = path or rng.choice([f"{rng.choice('abc')}/{rng.randint(0, 25)}", rng.choice(ODD)])
                _put(made, named, (rng.choice(["100644", "100644", "100755"]), f"{rng.randint(0, 5)}\n" * 3))
            case "d" if path is not None:
                del made[path]
            case "r" if path is not None:
                _put(made, f"moved/{rng.randint(0, 30)}", made.pop(path))
            case "m" if path is not None:
                mode = {"100644": "100755", "100755": "120000", "120000": "100644"}.get(made[path][0], "100644")
                _put(made, path, (mode, f"{rng.randint(0, 5)}"))
            case "f" if path is not None:
                _put(made, f"{path}/inside", made.pop(path))
            case _:
                _put(made, f"lib/{rng.randint(0, 3)}", ("160000", f"{rng.randint(1, 9)}" * 40))
    return made


def _put(tree: Tree, path: str, leaf: tuple[str, str]) -> None:
    """Write a path; git has no file where a folder is."""
    parts = path.split("/")
    above = {"/".join(parts[:end]) for end in range(1, len(parts))}
    for other in [one for one in tree if one in above or one.startswith(f"{path}/")]:
        del tree[other]
    tree[path] = leaf


def generated(folder: Path, seed: int, commits: int) -> None:
    """A git repository of so many commits: a few lines of history that cross, and others that begin anew.

    Its branches are `main`, `dev`, one that no repository of ours can have by that name, and those that were given up.
    """
    rng = random.Random(seed)
    writer = Writer()
    lines = [writer.commit(changed({}, rng))]
    given_up: dict[str, int] = {}
    while len(writer.trees) < commits:
        chance = rng.random()
        place = rng.randrange(len(lines))
        if chance < 0.03:
            lines.append(writer.commit(changed({}, rng), when=f"{rng.randint(0, 10**9)} -0730"))
        elif chance < 0.12:
            lines.append(rng.choice(lines))
        elif chance < 0.32 and len({*lines}) > 1:
            _merge(writer, lines, rng)
        elif chance < 0.36:
            lines[place] = writer.commit(writer.trees[lines[place]], [lines[place]], message="nothing changed")
        else:
            lines[place] = writer.commit(changed(writer.trees[lines[place]], rng), [lines[place]])
        if len(lines) > 7:
            given_up[f"old/{len(given_up)}"] = lines.pop(rng.randrange(1, len(lines)))
    named = {"main": lines[0], "dev": lines[-1], "wip/ünïcode@1": rng.randrange(len(writer.trees))}
    writer.save(folder, named | given_up | {f"line/{number}": one for number, one in enumerate(lines)})


def _merge(writer: Writer, lines: list[int], rng: random.Random) -> None:
    """Two lines meet: both take the other one (criss-cross), or one does, and the result is any of several."""
    left, right = rng.sample(sorted({*lines}), 2)
    sides = [(left, right), (right, left)] if rng.random() < 0.4 else [(left, right)]
    for into, taken in sides:
        made = writer.commit(_result(writer.trees[into], writer.trees[taken], rng), [into, taken])
        lines[lines.index(into)] = made


def _result(into: Tree, taken: Tree, rng: random.Random) -> Tree:
    match rng.choice(["ours", "theirs", "both", "both", "both", "evil"]):
        case "ours":
            return into
        case "theirs":
            return taken
        case word:
            made = dict(into)
            for path, leaf in taken.items():
                if path not in made or rng.random() < 0.4:
                    _put(made, path, leaf)
            return changed(made, rng) if word == "evil" else made
