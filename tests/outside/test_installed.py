"""What an installed package with a domain changes (nothing), and what is refused where two packages clash."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from tests.toys.installing import TOYS, install, install_toys

ROOT = Path(__file__).parents[2]
WHAT_COUNTS = """
import json, importlib.metadata as metadata
asked = []
plain = metadata.entry_points
metadata.entry_points = lambda **given: asked.append(given) or plain(**given)
from metajournal import Journal, TagsAdded, urn
from metajournal.cli import main
from metajournal.commands.program import main
from metajournal.rules.digest import served_digests
from metajournal.schemas.encoding.known import contracts_by_fingerprint
from metajournal.schemas.events import event_types
from metajournal.terminal.parsing import event_class
toy = urn("toy", "attic", "bear")
main.main(["--version"], standalone_mode=False)
print(json.dumps([
    TagsAdded(toy, ["x"]).aggregate, toy.domain, served_digests(), sorted(contracts_by_fingerprint()),
    sorted(event_types()), event_class("catalog.TagsAdded").TYPE, event_class("files.FilesRecorded").TYPE, asked,
]))
"""
ASKED = """
import json, sys
from metajournal.schemas.errors import MetajournalError
from metajournal.streaming.between.adding import whole_domain
def told(name):
    try:
        return whole_domain(name)[0].name
    except MetajournalError as error:
        return f"{error.code}: {error}"
print(json.dumps([told(name) for name in sys.argv[1:]]))
"""
ONE_BY_ONE = """
import json, sys
from metajournal.schemas.errors import MetajournalError
from metajournal.schemas.outside import look_again
from metajournal.streaming.between.adding import whole_domain
def told(site):
    sys.path.insert(0, site)
    look_again()
    try:
        return whole_domain("toys")[0].name
    except MetajournalError as error:
        return f"{error.code}: {error}"
    finally:
        sys.path.remove(site)
        for module in [one for one in sys.modules if one.startswith("metajournal_toys")]:
            del sys.modules[module]
print(json.dumps([told(site) for site in sys.argv[1:]]))
"""
ASKED_OF_STREAM = """
import json, pathlib, sys
from metajournal.lake.storage.requests import DomainRequests
from metajournal.producers.topics import Epochs
from metajournal.streaming.between import adding
adding.added = lambda *given: None
requests = DomainRequests(sys.argv[1], {})
def told(name):
    requests.ask(name)
    adding.answer_request(None, requests, None, Epochs({}), {})
    answered = requests.answered()
    return [answered.code, answered.message, answered.hint]
def see(package):
    pathlib.Path(sys.argv[2], package).symlink_to(pathlib.Path(sys.argv[3], package))
unknown, late = told("nothing"), told("late")
see("late_package")
print(json.dumps([unknown, late, told("late"), told("needs")]))
"""
LISTED = """
import json
from metajournal.commands import domains
from metajournal.schemas.settings import Settings
domains._served = lambda settings: ({}, {}, None)
print(json.dumps({row["name"]: row["commands"] for row in domains._listed(Settings())}))
"""
EXPLAINED = """
import json
from metajournal.indexer.search.brought import BroughtWords
from metajournal.indexer.search.explain import explain
from metajournal.indexer.search.grammar import parse
from metajournal.producers import topics
from metajournal.producers.recorded.served import Served, obey
from metajournal.schemas.errors import KafkaUnavailableError
from metajournal.schemas.outside import declaration
plain = {"user": {"tags": [], "properties": {}}, "system": {"tags": [], "properties": {}}, "namespace": None}
bear = {**plain, "kind": "toy", "name": "bear", "record": {"material": "mohair"}}
other = {**plain, "kind": "thing", "name": "bear", "record": {"material": "mohair"}}
asked = []
def read(settings, **given):
    asked.append(settings)
    obey(Served("toys", "metajournal-toys", declaration("toys").kinds, True, 2, {}))
def away(settings, **given):
    raise KafkaUnavailableError("away")
def told(words, state):
    words.take_in([state])
    return [[why.key, why.text] for why in explain(parse("mohair").terms, state).why]
topics.read_epochs = away
before = told(BroughtWords(None), bear)
topics.read_epochs = read
words = BroughtWords("mine")
print(json.dumps([before, told(words, other), list(asked), told(words, bear), told(words, bear), asked]))
"""


def python(code: str, *sites: Path, words: tuple[str, ...] = ()) -> Any:
    paths = f"import sys; sys.path[:0] = {[str(site) for site in sites]!r}\n"
    ran = subprocess.run(
        [sys.executable, "-c", paths + code, *words], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return json.loads(ran.stdout.splitlines()[-1])


def declaring(folder: Path, name: str, domain: str, kinds: str, more: str = "") -> Path:
    """A package's folder with a declaration and nothing else."""
    package = folder / name
    package.mkdir(parents=True)
    package.joinpath("__init__.py").touch()
    package.joinpath("domain.py").write_text(
        "from metajournal.schemas.domain import Domain, Kind\n"
        f"KINDS = tuple(Kind(one, {domain!r}) for one in {kinds.split()!r})\n"
        f"DOMAIN = Domain({domain!r}, __package__, kinds=KINDS{more})\n"
    )
    return package


@pytest.mark.thorough
def test_to_install_a_package_changes_nothing_and_asks_for_nothing(tmp_path: Path) -> None:
    """Digest, schemas, kinds and words are those of before; entry points are not even read."""
    with_toys = python(WHAT_COUNTS, install_toys(tmp_path / "site"))
    assert with_toys == python(WHAT_COUNTS)
    assert with_toys[0:2] == ["toy:attic/bear", "catalog"]
    assert with_toys[-1] == []


@pytest.mark.thorough
def test_the_commands_of_an_installed_domain_are_found_by_their_word(tmp_path: Path) -> None:
    site = install_toys(tmp_path / "site")
    code = f"import sys; sys.path[:0] = [{str(site)!r}]\nfrom metajournal.cli import program\nprogram()"
    shown = subprocess.run([sys.executable, "-c", code, "players", "--help"], capture_output=True, text=True, cwd=ROOT)
    assert (shown.returncode, "Show who played with a toy" in shown.stdout) == (0, True), shown.stderr
    commands = python(LISTED, site)
    assert (commands["toys"], commands["catalog"], "lineage" in commands["lineage"]) == (["players"], [], True)
    root = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, cwd=ROOT)
    assert "`metajournal domains` lists external domains and their commands" in root.stdout
    unknown = subprocess.run([sys.executable, "-c", code, "playing"], capture_output=True, text=True, cwd=ROOT)
    assert (unknown.returncode, "No such command 'playing'" in unknown.stderr) == (2, True), unknown.stderr


@pytest.mark.thorough
def test_clashes_name_both_packages(tmp_path: Path) -> None:
    """A domain, or a kind, that two declare; a kind or a domain of our own; each only where that domain is wanted."""
    site = tmp_path / "site"
    folders = tmp_path / "folders"
    for package, module, domain, kinds in (
        ("toys-one", "toys_one", "dolls", "doll"),
        ("toys-two", "toys_two", "dolls", "puppet"),
        ("games-one", "games_one", "games", "game board"),
        ("games-two", "games_two", "sports", "ball game"),
        ("copies", "copies", "copies", "dataset"),
        ("filing", "filing", "files", "folder"),
        ("fine", "fine", "fine", "thing"),
    ):
        install(site, package, {domain: module}, declaring(folders, module, domain, kinds))
    asked = ("dolls", "games", "sports", "copies", "files", "fine", "nothing", "lineage", "repositories", "tables")
    dolls, games, sports, copies, files, fine, nothing, *ours = python(ASKED, site, words=asked)
    assert dolls.startswith("declared-twice: Two packages declare the domain dolls: toys-one (toys_one) and toys-two (")
    assert "Two packages declare the kind game: games-one (domain games) and games-two (domain sports)" in games
    assert "Two packages declare the kind game: games-two (domain sports) and games-one (domain games)" in sports
    assert (
        "The package copies declares the domain copies wrongly: its kind dataset is declared by metajournal" in copies
    )
    assert files == "declared-twice: filing declares the domain files, which metajournal declares itself."
    assert fine == "fine"
    assert nothing.startswith("missing-domain: No installed package provides a domain 'nothing'")
    assert ours == [
        "own-domain: lineage is a built-in domain: there is nothing to add.",
        "repositories",  # a journal of before may be waiting for it
        "own-domain: tables is a built-in domain: this version does not serve it yet.",
    ]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (", event_types=('other.Made.1',)", "other.Made.1 does not begin with things."),
        (", journal='catalog'", "an external domain has kinds and a journal topic of its own"),
        (", event_types=('things.Made.1',)", "declares other event types than it has in contracts/: things.Made.1"),
    ],
)
def test_a_declaration_that_cannot_be_served_is_told(tmp_path: Path, more: str, said: str) -> None:
    folder = declaring(tmp_path / "folders", "things_package", "things", "thing", more)
    site = install(tmp_path / "site", "things-package", {"things": "things_package"}, folder)
    (told,) = python(ASKED, site, words=("things",))
    assert told.startswith("broken-domain: ")
    assert said in told


@pytest.mark.thorough
def test_a_package_that_cannot_be_imported_is_named(tmp_path: Path) -> None:
    site = install(tmp_path / "site", "gone", {"gone": "gone_package"})
    (told,) = python(ASKED, site, words=("gone",))
    assert told.startswith("broken-domain: The package gone brings the domain gone, but gone_package.domain does not")


@pytest.mark.thorough
def test_a_task_without_the_package_or_with_other_rules_refuses(tmp_path: Path) -> None:
    """A worker of a cluster: what it would judge otherwise, it does not judge at all."""
    code = """
import json, pickle, sys
from metajournal.schemas.domain import Domain, Kind
from metajournal.schemas.errors import DomainError
from metajournal.schemas.topics import TopicNames
from metajournal.streaming.plan import Brought, Plan
from metajournal.streaming.plan import take_in_domains
kinds = (Kind("toybox", "toys", 1, 1), Kind("toy", "toys", 2, 2, "toybox", 1))
def told(digest):
    domain = Domain("toys", "metajournal_toys", kinds, ("toys.ToyMade.1", "toys.ToyPlayed.1", "toys.ToyLost.1"))
    plan = Plan({}, {}, (), TopicNames(), {}, None, {}, outside=(Brought(domain, "metajournal-toys", digest),))
    try:
        take_in_domains(pickle.loads(pickle.dumps(plan)).outside)
    except DomainError as error:
        return [error.code, "metajournal-toys" in str(error)]
    return "fine"
from metajournal.schemas.outside import declaration
from metajournal.rules.digest import digest_of
mine = declaration("toys")
print(json.dumps([told("other"), told(digest_of("toys") if mine else "other")]))
"""
    assert python(code) == [["missing-domain", True]] * 2
    assert python(code, install_toys(tmp_path / "site")) == [["other-rules", True], "fine"]


@pytest.mark.thorough
def test_no_domain_is_served_before_every_file_of_it_loads_and_agrees(tmp_path: Path) -> None:
    """The stream would die of it, and what is served stays served: the file, the error and its text are told."""
    changes = [
        ("words.py", "def words", "def sayings", "its words.py lacks words"),
        (
            "documents.py",
            "CHANGE_TYPE =",
            "CHANGE_TYPE = 1 // 0 #",
            "toys/documents.py, line 12 fails: ZeroDivisionErr",
        ),
        ("typed.py", "def typed(", "def typed((", "metajournal_toys/typed.py, line 9 fails: SyntaxError: "),
        ("client.py", "from .events", "from .happenings", "No module named 'metajournal_toys.happenings'"),
        ("derived.py", "(BY_PLAYER.name,), {", '("toys_by_hour",), {', "does not declare with a version: toys_by_hour"),
        (
            "derived.py",
            "PlayKey.TABLE: tuple",
            '"toys_by_player": tuple',
            "tables that are not tables of the fold: toys_by_pl",
        ),
        ("tables.py", "(PLAYS, BY_PLAYER)", "(PLAYS,)", "does not declare with a version: toys_by_player"),
        ("tables.py", "(PLAYS, BY_PLAYER)", "(BY_PLAYER,)", "and ROWS in rows.py differ: toy_plays"),
        (
            "tables.py",
            'name="toys_by_player"',
            'name="file_records"',
            "has a table 'file_records', which another domain has too",
        ),
        (
            "rules.py",
            "READS: Final[Mapping[str, Reading]] = {",
            "READS = {'toys.X.1': 1, ",
            "does not declare: toys.X.1",
        ),
        ("contracts/ToyLost.v1.avsc", '"ToyLost"', '"ToyGone"', "contracts/ fails: ValueError: the contract of toys."),
        ("words.py", "def words", "def words", ""),
    ]
    sites = []
    for number, (file, text, other, _) in enumerate(changes):
        folder = copytree(TOYS, tmp_path / str(number) / TOYS.name)
        source = folder.joinpath(file).read_text()
        assert text in source
        folder.joinpath(file).write_text(source.replace(text, other))
        sites.append(str(install(tmp_path / f"site{number}", "metajournal-toys", {"toys": "metajournal_toys"}, folder)))
    said = python(ONE_BY_ONE, words=tuple(sites))
    assert said[-1] == "toys"
    assert [(expected, one) for (*_, expected), one in zip(changes, said, strict=True) if expected not in one] == []
    assert {one.partition(":")[0] for one in said[:-1]} == {"broken-domain", "declared-twice"}


@pytest.mark.thorough
def test_a_stream_that_began_before_the_package_came_says_so(tmp_path: Path) -> None:
    """What Python can see without beginning again it sees; of anything else the answer says how."""
    site, folders = tmp_path / "site", tmp_path / "folders"
    install(site, "late", {"late": "late_package"})
    declaring(folders, "late_package", "late", "lateness")
    needs = declaring(folders, "needs_package", "needs", "need")
    needs.joinpath("words.py").write_text("import not_there\n")
    install(site, "needs", {"needs": "needs_package"}, needs)
    words = (str(tmp_path / "lake"), str(site), str(folders))
    unknown, late, then, lacks = python(ASKED_OF_STREAM, site, words=words)
    for code, message, hint in (unknown, late):
        assert (code, "metajournal down && metajournal up" in hint) == ("package-not-seen", True)
        assert "stream's process does not see the package" in message
    assert then[0] is None, then
    assert (lacks[0], "words.py, line 1 fails: ModuleNotFoundError: No mod" in lacks[1]) == ("broken-domain", True)
    assert "metajournal up" in lacks[2]


def test_a_search_without_a_journal_explains_hits_by_their_domains_words(tmp_path: Path) -> None:
    """As one of the command line: what is served is asked once, and only where an installed package has the kind."""
    away, other, not_asked, told, again, asked = python(EXPLAINED, install_toys(tmp_path / "site"))
    assert (away, other, not_asked) == ([], [], [])
    assert told == again == [["material", "mohair"]]
    assert asked == ["mine"]


def test_an_unknown_event_type_is_answered_with_those_of_installed_domains_too(tmp_path: Path) -> None:
    code = """
import json
from metajournal.schemas.errors import InputError
from metajournal.terminal.parsing import event_class
def told(name):
    try:
        return event_class(name).TYPE
    except InputError as error:
        return [error.message, error.hint]
print(json.dumps([told("ToyMad"), told("toys.ToyPlaid"), told("toys.ToyLost")]))
"""
    bare, misspelt, lost = python(code, install_toys(tmp_path / "site"))
    assert bare[0].endswith("Did you mean toys.ToyMade?")
    assert misspelt[0].endswith("Did you mean toys.ToyPlayed?")
    assert bare[1].endswith(", toys.ToyLost, toys.ToyMade, toys.ToyPlayed.")
    assert lost == "toys.ToyLost.1"
