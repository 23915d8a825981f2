"""Pages and questions while the index, Kafka or the lake is away: each says so within its time, in words and with the
next step, or shows what it has; and once the service is back, each answers as before.

What is away is a door that is shut (`doors`), or a lake's folder that is not there; the services stay. All are asked at
once: an outage lasts as long as the slowest answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import pytest

from metajournal import EntityRegistered, Journal, app, dataset, program, stream
from metajournal.commands.serving import principals_of
from metajournal.consumers import whole_topic
from metajournal.gateway.server import serving_settings
from metajournal.gateway.table import Table
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.errors import OutcomeUnknownError
from metajournal.schemas.settings import LakeSettings, Settings
from tests.browser.places import PLACES
from tests.browser.story import NIGHTLY, NIGHTLY_PROGRAM, ORDERS, Story, tell
from tests.gateway.browsing import Browser, logged_in, member, parsed, token_of
from tests.gateway.doors import Door, door
from tests.gateway.serving import Asked, Got, PlainPrincipals, Served, running, served
from tests.gateway.test_rights_matrix import LINES, PAGE_LINES, Line, PageLine, _in, rows_asked_for
from tests.gateway.test_writing import key
from tests.services import Services
from tests.wait import eventually

pytestmark = pytest.mark.services
_L = TypeVar("_L", Line, PageLine)
WAIT_S: Final = 2.0
"""What the gateway waits for a follower or the lake, so that nobody here waits for long."""
DELIVERY_S: Final = 3.0
"""After which an event without acknowledgement has an unknown outcome."""
HEARD_S: Final = 4.0
ME: Final = "/api/v1/access/me"
TAGS: Final = "/v3/namespaces/shop/datasets/totals/metadata/tags"
NOT_KNOWN: Final = "index (not known"
STALE_S: Final = 600.0
"""Rights are believed for longer than these tests take: what else is away is to be told apart from them."""
MOST_S: Final = 30.0
"""Within which each is answered, beside all others, on a slow machine: a broker may come back for ten seconds."""
_METADATA: Final = "/v3/namespaces/shop/datasets/orders/metadata"
READS: Final = (
    _METADATA, f"{_METADATA}/properties", f"{_METADATA}/properties/system", f"{_METADATA}/tags",
    "/v3/namespaces/shop/metadata/search?query=orders",
    "/v3/namespaces/shop/datasets/orders/lineage?start=0&end=now",
    "/v3/namespaces/shop/apps/sums/workflow/nightly/runs/r1/metadata/accesses",
    *(f"/api/v1/{what}/{ORDERS}" for what in ("entities", "history", "diff", "lineage")),
    f"/api/v1/runs/{NIGHTLY_PROGRAM}", f"/api/v1/run/{NIGHTLY}", f"/api/v1/accesses/{NIGHTLY}",
    "/api/v1/events/{accepted}", "/api/v1/search?query=orders", "/api/v1/suggest/names?prefix=o",
    "/api/v1/suggest/keys?prefix=t", "/api/v1/files?where=web01&work_id=job-1",
    "/api/v1/files/latest?where=web01&what=syslog", "/api/v1/repositories",
    *(f"/api/v1/repositories/prices{what}"
      for what in ("", "/branches", "/log?ref=main", "/objects?ref=main", "/diff?left=trial&right=main")),
    "/api/v1/access/me",
    *(f"/api/v1/access/{what}" for what in ("principals", "principals/root", "principals/root/keys", "roles")),
)  # fmt: skip
"""Questions of the API, all of which have an answer."""
FORMS_OF_ENTITIES: Final = ("apps/p", "apps/p/flow/f", "streams/s", "stream/s")


def _lines(lines: Sequence[_L], wanted: Callable[[_L], bool]) -> dict[str, _L]:
    return {f"{line.method} {line.path}": line for line in lines if wanted(line)}


def _is_other(line: Line) -> bool:
    return (
        line.method == "GET"
        and "/runs/" not in line.path
        and any(f"/NS/{form}/" in line.path for form in FORMS_OF_ENTITIES)
    )


OTHERS: Final = _lines(LINES, _is_other)
"""Questions about entities of other forms than those of `READS`."""
WRITES: Final = _lines(LINES, lambda line: line.method in ("POST", "DELETE"))
"""What is sent to the API, a line of each row."""
FORMS: Final = _lines(PAGE_LINES, lambda line: line.method == "POST" and line.path != "/logout")
FEEDS: Final = _lines(LINES, lambda line: line.method == "HEAD")
FEEDS_OF_PAGES: Final = _lines(PAGE_LINES, lambda line: line.method == "HEAD")
_PARTS: Final = ("/login", "/assets/any/style.css", "/suggest?query=o", f"/states/{ORDERS}", f"/graph/{ORDERS}",
                 "/freshness", "/access/roles/analyst")  # fmt: skip
PARTS: Final = {f"GET {path}": PageLine("GET", path, "any", 200) for path in _PARTS}
"""What pages load, and the pages that `PLACES` does not have."""
LOGIN: Final = "a login"
PUBLIC: Final = frozenset({"GET /assets/any/style.css"})
EXCUSED: Final = {
    "GET /api/v1/events/{topic}/{partition}/{value}",  # as by its id
    "POST /logout",  # could be sent once: it ends its sender's session
}
"""Rows of which no line is asked for here."""
SEARCHES: Final = frozenset({"GET /suggest?query=o"})


def _space(number: int) -> str:
    return f"w{number}"


def _own(path: str, number: int) -> str:
    """A line's path with names that no other line has, so that each is answered alike whenever it is sent."""
    path = path.replace("NS", _space(number)).replace("/principals/p/", f"/principals/p{number}/")
    return re.sub("/(principals/p|roles/r)$", rf"/\g<1>{number}", path)


ACCESS: Final = frozenset(
    {"access", "principal", "sessions", *(path for path in READS if "/access/" in path and not path.endswith("/me"))}
)
"""What is read of the newest rights."""
REPOSITORIES: Final = frozenset(
    {"repository", "log", "objects", "branches compared",
     *(path for path in READS if path.startswith("/api/v1/repositories/prices"))}
)  # fmt: skip
"""What is read of the newest of a repository."""
READING: Final = frozenset(name for name in WRITES if name.endswith("/lineage/next"))
"""What is sent and writes nothing."""
APART: Final = ACCESS | REPOSITORIES
"""What is asked for by another, since it waits in threads of which each asker has some."""


class Told(NamedTuple):
    """What came of a request.

    Args:
        before, away, back: the answers before, in and after an outage; None: there was none in time.
    """

    before: Got
    away: Got | None
    back: Got


Answers = Mapping[str, Told]
"""By the paths of questions, and the names of pages."""
Ask = Callable[[], Got]


@dataclass
class Gateway:
    """A gateway that reaches its services through doors.

    Attributes:
        asked: sends to it.
        keys: of two who may do everything, of whom the second asks for what others would wait behind.
        browsers: both of them, logged in.
        index, kafka: the doors.
        lake: a link to the lake's folder.
    """

    asked: Asked
    keys: Sequence[str]
    browsers: Sequence[Browser]
    index: Door
    kafka: Door
    lake: Path
    story: Story
    token: Mapping[str, str]

    def asks(self) -> Mapping[str, Ask]:
        """What asks for each address."""
        named = self.story._asdict()
        questions = {
            path: partial(self.asked.get, path.format(**named), key=self.keys[path in APART]) for path in READS
        }
        pages = {
            name: partial(self.browsers[name in APART].get, path.format(**named))
            for name, (path, _, _) in PLACES.items()
        }
        return {**questions, **pages, **self._writes(), **self._parts()}

    def _writes(self) -> Mapping[str, Ask]:
        """What sends what is written, by the API and by forms, and a login."""
        lines = enumerate([*WRITES.items(), *OTHERS.items()])
        writes = {
            name: partial(self.asked.ask, line.method, _own(line.path, number), _in(line.body, _space(number)),
                          key=self.keys[1])
            for number, (name, line) in lines
        }  # fmt: skip
        forms = {
            name: partial(self.browsers[0].send, _own(line.path, 0), {**line.fields, **self.token})
            for name, line in FORMS.items()
        }
        return {**writes, **forms, LOGIN: lambda: Browser(self.asked).log_in(self.keys[1])}

    def _parts(self) -> Mapping[str, Ask]:
        """What asks for the feeds, and for what pages load."""
        feeds = {
            name: partial(self.asked.ask, line.method, line.path, key=self.keys[0]) for name, line in FEEDS.items()
        }
        parts = {
            name: partial(self.browsers[0].ask, line.method, line.path)
            for name, line in (*PARTS.items(), *FEEDS_OF_PAGES.items())
        }
        return {**parts, **feeds}


def answers_to(asks: Mapping[str, Ask]) -> dict[str, Got]:
    """The answers to all who ask at once."""
    with ThreadPoolExecutor(len(asks)) as pool:
        return dict(zip(asks, pool.map(lambda ask: ask(), asks.values()), strict=True))


def through(
    asks: Mapping[str, Ask], before: Mapping[str, Got], away: Callable[[], object], back: Callable[[], object]
) -> Answers:
    """The answers before, in and after an outage."""

    def as_before() -> dict[str, Got]:
        found = answers_to(asks)
        assert {name: got.status for name, got in found.items()} == {name: before[name].status for name in asks}
        return found

    with ThreadPoolExecutor(len(asks)) as pool:
        try:
            away()
            futures = {name: pool.submit(ask) for name, ask in asks.items()}
            wait(futures.values(), MOST_S)
            told = {name: future.result() if future.done() else None for name, future in futures.items()}
        finally:
            back()
    after = eventually(as_before, what="an answer of every address as it was before")
    return {name: Told(before[name], told[name], after[name]) for name in asks}


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    """A server whose services are never away, and whose stream folds the story."""
    ensure_topics(gateway_settings)
    with served(gateway_settings, real=True) as found:
        yield found


@dataclass(frozen=True)
class Doors:
    """Settings of the same installation through doors, and these."""

    settings: Settings
    index: Door
    kafka: Door
    lake: Path


@pytest.fixture(scope="module")
def doors(
    services: Services, gateway_settings: Settings, server: Served, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Doors]:
    link = tmp_path_factory.mktemp("doors") / "lake"
    link.symlink_to(gateway_settings.lake.path)
    with (
        door(services.elasticsearch_url.rpartition("/")[2]) as index,
        door(services.bootstrap_servers, is_kafka=True) as kafka,
    ):
        settings = replace(
            gateway_settings,
            kafka={**gateway_settings.kafka, "bootstrap.servers": kafka.address},
            elasticsearch=replace(gateway_settings.elasticsearch, url=f"http://{index.address}"),
            lake=LakeSettings(path=str(link)),
            gateway=replace(gateway_settings.gateway, wait_s=WAIT_S),
            client=replace(gateway_settings.client, delivery_timeout_s=DELIVERY_S),
        )
        yield Doors(settings, index, kafka, link)


@contextmanager
def reached(doors: Doors, stale_s: float) -> Iterator[Asked]:
    """A gateway behind the doors.

    Args:
        stale_s: seconds for which it believes what it has heard of rights.
    """
    with (
        Journal.connect(serving_settings(doors.settings)) as journal,
        closing(principals_of(journal, stale_s)) as principals,
        running(journal, principals, doors.settings) as address,
    ):
        yield Asked(address)
        with suppress(OutcomeUnknownError):  # what a sender was told already would be told again at the end
            journal.flush()


@pytest.fixture(scope="module")
def keys(server: Served) -> Sequence[str]:
    return [member(server.journal, name, ("admin", "*")) for name in ("root", "second")]


@pytest.fixture(scope="module")
def gateway(server: Served, gateway_settings: Settings, doors: Doors, keys: Sequence[str]) -> Iterator[Gateway]:
    """The gateway through doors, all of which are open."""
    for number in range(len(WRITES) + len(OTHERS)):
        space = _space(number)
        for entity in (dataset(space, "d"), app(space, "p"), program(space, "p", "flow", "f"), stream(space, "s")):
            server.journal.emit(EntityRegistered(entity))
    story = tell(server, gateway_settings)
    with pytest.MonkeyPatch.context() as patch, reached(doors, STALE_S) as asked:
        patch.setattr(whole_topic, "PIN_S", STALE_S)  # a pin that is due without the lake would end the news of rights
        browsers = [logged_in(asked, key) for key in keys]
        token = token_of(browsers[0].page("/"))
        found = Gateway(asked, keys, browsers, doors.index, doors.kafka, doors.lake, story, token)
        answers_to(found.asks())  # what is written is there from now on, so that each is answered alike again
        yield found


@pytest.fixture(scope="module")
def before(gateway: Gateway) -> Mapping[str, Got]:
    """The answers while nothing is away."""
    return answers_to(gateway.asks())


@pytest.fixture(scope="module")
def without_index(gateway: Gateway, before: Mapping[str, Got]) -> Answers:
    asks = gateway.asks()

    def away() -> None:
        gateway.index.shut()
        known = partial(gateway.browsers[0].get, "/freshness")
        eventually(lambda: NOT_KNOWN.encode() in known().body)  # what was known before is told for two seconds

    return through(asks, before, away, gateway.index.open)


@pytest.fixture(scope="module")
def without_lake(gateway: Gateway, before: Mapping[str, Got]) -> Answers:
    """What is written in an outage of its own: whether an event about rights came before is known in the lake alone."""
    gone, found = gateway.lake.with_name("gone"), dict[str, Told]()
    away, back = partial(gateway.lake.rename, gone), partial(gone.rename, gateway.lake)
    for is_written in (False, True):
        asks = {name: ask for name, ask in gateway.asks().items() if (name in WRITTEN) == is_written}
        found |= through(asks, before, away, back)
    return found


class WithoutKafka(NamedTuple):
    """What came of an outage of Kafka.

    Args:
        answers: of the gateway.
        unheard: meanwhile, of another one that believes what it has heard of rights for some seconds only; both of
            them answered again afterwards.
        write: the answer to a write, with what sends it.
    """

    answers: Answers
    unheard: Mapping[str, Got]
    write: Got
    send: Ask


@pytest.fixture(scope="module")
def without_kafka(gateway: Gateway, before: Mapping[str, Got], doors: Doors) -> Iterator[WithoutKafka]:
    root, refused, writes = gateway.keys[0], list[Future[Mapping[str, Got]]](), list[Future[Got]]()
    send = partial(gateway.asked.post, TAGS, ["written"], key=root, Idempotency_Key=key())
    with reached(doors, HEARD_S) as asked, ThreadPoolExecutor(2) as aside:
        browser = logged_in(asked, root)
        token = token_of(browser.page("/"))
        other = replace(gateway, asked=asked, keys=[root] * 2, browsers=[browser] * 2, token=token)

        def unheard() -> Mapping[str, Got]:
            eventually(lambda: asked.get(ME, key=root).status == 503, what="rights that are too old")
            return answers_to(other.asks())

        def away() -> None:
            gateway.kafka.shut()
            refused.append(aside.submit(unheard))
            writes.append(aside.submit(send))

        def back() -> None:
            wait(refused)
            wait(writes)
            gateway.kafka.open()

        answers = through(gateway.asks(), before, away, back)
        eventually(lambda: asked.get(ME, key=root).status == 200, what="rights that are heard of again")
        assert browser.get("/").status == 200
        yield WithoutKafka(answers, refused[0].result(), writes[0].result(), send)


def assert_told(answers: Answers, refused: Mapping[str, str], shown: Mapping[str, str]) -> None:
    """Addresses say what is away, or show what they have; all others answer as before.

    Args:
        refused: the codes of those that cannot answer.
        shown: what those pages say that show a part, or whose part it is that is away.
    """
    for name, told in answers.items():
        assert told.away is not None, name
        if name in WRITTEN:
            continue
        if name in refused:
            assert_refused(told.away, refused[name], name)
        elif name in shown:
            assert shown[name] in main_of(told.away), name
            assert shown[name] not in main_of(told.before), name
        else:
            assert (told.away.status, told.away.headers.get("content-type")) == (
                told.before.status, told.before.headers.get("content-type"),
            ), (name, told.away.body)  # fmt: skip
            assert bool(told.away.body) == bool(told.before.body), name


def assert_refused(got: Got, code: str, name: str, status: int = 503) -> None:
    """An answer that says what is away, with the next step and when to come again; or that nothing is known (504)."""
    assert got.status == status, (name, got.body)
    assert status == 504 or int(got.headers["retry-after"]) >= 1, name
    if name.startswith("HEAD "):
        return
    if name in SHOWN:
        main = parsed(got.body).all("main")[0]
        alert, hint, *_ = main.all("p")
        title = "This is not available now" if status == 503 else "The outcome is not known"
        assert (main.all("h1")[0].text, alert.attributes["role"]) == (title, "alert"), name
        assert len(alert.text) > 20, name
        assert len(hint.text) > 20, name
        assert f"{code}, request " in main.text, name
        return
    assert got.headers["content-type"] == "application/problem+json", name
    assert got.json["code"] == code, (name, got.body)
    assert len(got.json["detail"]) > 20, name
    assert len(got.json["hint"]) > 20, name


SHOWN: Final = frozenset({*PLACES, *FORMS, *PARTS, LOGIN})
"""What is answered by pages, and so refused by one."""
WRITTEN: Final = frozenset({*WRITES, *FORMS, LOGIN} - READING)
"""What emits an event."""


def assert_written(answers: Answers, away: Callable[[str, Got], None]) -> None:
    """What is written is answered as before, or as `away` makes sure of."""
    for name in WRITTEN:
        told = answers[name]
        assert told.away is not None, name
        if told.away.status != told.before.status:
            away(name, told.away)


def main_of(got: Got) -> str:
    return parsed(got.body).all("main")[0].text


def test_before_an_outage_every_address_has_its_answer(before: Mapping[str, Got]) -> None:
    wanted = {**dict.fromkeys(READS, 200), **{name: status for name, (_, status, _) in PLACES.items()}}
    wanted |= dict.fromkeys((*OTHERS, *FEEDS, *FEEDS_OF_PAGES, *READING), 200)
    wanted |= {name: line.status for name, line in (*PARTS.items(), *FORMS.items())} | {"GET /login": 303, LOGIN: 303}
    assert {name: before[name].status for name in wanted} == wanted
    answered = {name: before[name].status for name in WRITES if before[name].status not in (200, 201, 202)}
    assert set(answered) <= {name for name in WRITES if "/access/" in name}, answered


def test_every_address_is_asked_for_here_or_excused(server: Served) -> None:
    table = Table(server.journal.epochs.domains)
    reads = [Line("GET", path, "any") for path in READS]
    lines = [*reads, *OTHERS.values(), *WRITES.values(), *FEEDS.values()]
    places = [
        PageLine("GET", path, "any", status) for name, (path, status, _) in PLACES.items() if name != "no such page"
    ]
    pages = [*places, *PARTS.values(), *FORMS.values(), *FEEDS_OF_PAGES.values()]
    asked = rows_asked_for(table.endpoints, lines) | rows_asked_for(table.pages, pages)
    assert {row.name for rows in (table.endpoints, table.pages) for row in rows} - asked == EXCUSED


def test_without_the_index_all_but_searches_is_answered(without_index: Answers) -> None:
    refused = {path: "search-unavailable" for path in READS if "search?" in path or "/suggest/" in path}
    searches = ("search", "hits", "hits of hostile texts", "no hits", "keys", "keys that begin so", "no keys")
    for name in searches:
        told = without_index[name].away
        assert (told is not None and told.status, name) == (503, name)
    shown = {**dict.fromkeys((*searches, "home"), "Not available: "), "pipeline": NOT_KNOWN}
    assert_told(without_index, {**refused, **dict.fromkeys(SEARCHES, "search-unavailable")}, shown)
    assert_written(without_index, _nothing_else)


def _nothing_else(name: str, got: Got) -> None:
    raise AssertionError(f"{name} needs nothing that is away: {got.status}, {got.body!r}")


NEEDS_NO_LAKE: Final = ("search?", "/suggest/", "/api/v1/access/")
"""What is in the path of a question that the index answers, or what was heard of rights."""
OF_EVENTS: Final = "/api/v1/events/"
"""Where there is no lake Kafka has the events, too; of one that does not answer nobody knows what it has."""


def test_without_the_lake_what_needs_none_is_answered(without_lake: Answers) -> None:
    refused = {path: "no-lake" for path in READS if not any(part in path for part in (*NEEDS_NO_LAKE, OF_EVENTS))}
    pages = (
        "entity", "entity saved", "hostile entity", "deleted entity", "unknown entity", "history", "hostile history",
        "difference", "lineage", "no lineage", "runs", "run", "hostile run",
        "found files", "no files", "repositories", "repository", "log", "objects", "branches compared",
    )  # fmt: skip
    parts = (*OTHERS, *READING, f"GET /states/{ORDERS}", f"GET /graph/{ORDERS}")
    assert_told(without_lake, {**refused, **dict.fromkeys((*pages, *parts), "no-lake")}, {})
    assert_written(without_lake, _is_taken)


def _is_taken(name: str, got: Got) -> None:
    """Of what cannot be judged without the lake: the API says that it is in the journal, and pages that too, or what is
    away."""
    if name in WRITES:
        assert (got.status, got.json["outcome"]) == (202, "pending"), (name, got.body)
        assert got.headers["location"] == f"/api/v1/events/{got.json['event_id']}", name
    elif got.status == 504:
        assert_refused(got, "pending", name, 504)
    else:
        codes = ["unavailable"] if name == LOGIN else ["no-lake", "not-yet-visible"]
        assert_refused(got, next((code for code in codes if code.encode() in got.body), codes[0]), name)


def test_without_kafka_what_the_lake_and_the_index_have_is_answered(without_kafka: WithoutKafka) -> None:
    fresh = {path for path in READS if path.startswith(_METADATA)}
    fresh |= {f"/api/v1/{what}/{ORDERS}" for what in ("entities", "history", "diff")}
    fresh |= {"entity", "entity saved", "hostile entity", "deleted entity", "unknown entity", "unknown event", "audit"}
    fresh |= {name for name in OTHERS if "/metadata" in name}
    of_rights = {*ACCESS, "GET /access/roles/analyst"}
    codes = dict.fromkeys(fresh | REPOSITORIES, "kafka-unavailable") | dict.fromkeys(of_rights, "rights-not-heard")
    answers = without_kafka.answers
    assert {name for name, told in answers.items() if told.away is None} == set(), "not answered within their time"
    assert_told(answers, codes, {})
    assert_written(answers, _is_unknown)
    shown = [answers[name].away for name in ("home", "pipeline")]  # of two who ask at once one gets what was known
    assert any(got is not None and "could not be read" in main_of(got) for got in shown)


def _is_unknown(name: str, got: Got) -> None:
    """Of what Kafka did not acknowledge nobody is told that it is there, or is not; nor what only Python has."""
    assert_refused(got, "outcome-unknown", name, 503 if name.startswith("POST /api/v1/lineage") else 504)
    assert b"journal.emit" not in got.body, name
    if name in WRITES and got.status == 504:
        assert got.headers["metajournal-event-id"] in got.json["hint"], "which is safe as the key of a repetition"


def test_where_rights_were_not_heard_of_nobody_is_answered_until_they_are(without_kafka: WithoutKafka) -> None:
    for name, got in without_kafka.unheard.items():
        if name == "no such page":
            assert got.status == 404
        elif name in PUBLIC:
            assert got.status == 200
        else:
            assert_refused(got, "rights-not-heard", name)


def test_a_write_that_nobody_acknowledged_says_so_and_counts_once_when_it_is_sent_again(
    gateway: Gateway, without_kafka: WithoutKafka
) -> None:
    refused = without_kafka.write
    assert (refused.status, refused.json["code"]) == (504, "outcome-unknown"), refused.body
    assert len(refused.json["hint"]) > 20
    again = eventually(lambda: got if (got := without_kafka.send()).status == 200 else None)
    assert again.json["event_id"] == refused.headers["metajournal-event-id"]
    assert gateway.asked.get(TAGS, key=gateway.keys[0]).json == ["sales", "written"]


@contextmanager
def over(doors: Doors, lake: LakeSettings) -> Iterator[Asked]:
    """A gateway over another lake, with rights that no lake and no journal tell."""
    settings = replace(doors.settings, lake=lake)
    with (
        Journal.connect(serving_settings(settings)) as journal,
        running(journal, PlainPrincipals(), settings) as address,
    ):
        yield Asked(address)


def questions_of(asked: Asked, story: Story) -> Mapping[str, Ask]:
    """What asks all that is not asked of access, and one thing of repositories: each other one waits for the lake."""
    paths = (path for path in READS if not path.startswith(("/api/v1/access/", "/api/v1/repositories/")))
    return {path: partial(asked.get, path.format(**story._asdict())) for path in paths}


def assert_without_lake(answers: Mapping[str, Got], code: str, *, answered: Sequence[str] = ()) -> None:
    for path, got in answers.items():
        if any(part in path for part in (*NEEDS_NO_LAKE, *answered)):
            assert got.status == 200, path
        else:
            assert_refused(got, code, path)


def test_where_there_is_no_lake_yet_it_is_said_and_read_as_soon_as_it_is_there(
    gateway: Gateway, doors: Doors, tmp_path: Path
) -> None:
    place = tmp_path / "lake"
    with over(doors, LakeSettings(str(place))) as asked:
        questions = questions_of(asked, gateway.story)
        assert_without_lake(answers_to(questions), "no-lake", answered=[OF_EVENTS])
        place.symlink_to(doors.lake)
        eventually(lambda: {got.status for got in answers_to(questions).values()} == {200})


def test_a_store_that_does_not_answer_is_said_to_be_away(gateway: Gateway, doors: Doors) -> None:
    away = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "max_retries": "0",
    }  # fmt: skip
    with over(doors, LakeSettings("s3://tests/lake", away)) as asked:
        assert_without_lake(answers_to(questions_of(asked, gateway.story)), "lake-unavailable")
