"""What README and how-tos have typed into a shell with curl does what they say."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from metajournal import EntityRegistered, TagsAdded, dataset
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from tests.gateway.feeding import publisher
from tests.gateway.serving import ADMIN, Served, served
from tests.wait import eventually

pytestmark = pytest.mark.services
ROOT: Final = Path(__file__).parents[2]
PAGES: Final = ("README.md", "docs/how-to/serve-over-http.md", "docs/how-to/follow-changes-over-http.md")
HERE: Final = "127.0.0.1:8080"
"""The address that pages have."""


def typed(page: str) -> list[tuple[str, list[str]]]:
    """The commands of a page, each with the line right below it where that is what it prints."""
    found: list[tuple[str, list[str]]] = []
    more = ended = False
    for line in map(str.strip, (ROOT / page).read_text("utf-8").splitlines()):
        begins = line.removeprefix("$ ").startswith("curl ")
        if begins or more:
            text = line.removeprefix("$ ").removesuffix("\\")
            found.append((text, [])) if begins else found.append((found.pop()[0] + text, []))
            more = line.endswith("\\")
            ended = not more
            continue
        if ended and line.startswith(("[", "{")):
            found[-1][1].append(line)
        ended = False
    return found


COMMANDS: Final = [(page, *one) for page in PAGES for one in typed(page)]


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    """A server whose stream publishes, with the dataset of the pages."""
    ensure_topics(gateway_settings)
    with served(gateway_settings, topics=publisher(gateway_settings)) as found:
        found.journal.emit(EntityRegistered(dataset("default", "orders")))
        found.journal.emit(TagsAdded(dataset("default", "orders"), ["pii"]))
        found.journal.flush()
        yield found


def test_every_page_has_a_command() -> None:
    assert {page for page, _, _ in COMMANDS} == {*PAGES}
    assert sum(bool(printed) for _, _, printed in COMMANDS) == 2


@pytest.mark.parametrize(("page", "command", "printed"), COMMANDS)
def test_a_command_does_what_its_page_says(
    server: Served, page: str, command: str, printed: list[str], tmp_path: Path
) -> None:
    assert HERE in command
    line = command.replace(HERE, server.address).replace("curl ", "curl --silent --fail-with-body ", 1)
    if " -N " in command:
        follows(server, line, tmp_path / "heard")
        return
    done = subprocess.run(shell(line), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout
    for wanted in printed:
        assert re.fullmatch(shape(wanted), done.stdout), done.stdout


def follows(server: Served, line: str, heard: Path) -> None:
    """A feed gives a change that comes while it is open."""
    with heard.open("wb") as out, subprocess.Popen(shell(f"exec {line}"), stdout=out) as process:
        try:
            eventually(lambda: b"id: " in heard.read_bytes(), what="the feed's first id")
            server.journal.emit(EntityRegistered(dataset("sales", "orders"), tags=["new"]))
            server.journal.flush()
            server.fold()
            eventually(lambda: b'"urn":"dataset:sales/orders"' in heard.read_bytes(), what="the change")
        finally:
            process.terminate()


def shell(line: str) -> list[str]:
    return ["env", f"KEY={ADMIN}", "bash", "-euo", "pipefail", "-c", line]


def shape(shown: str) -> str:
    """What an answer may be that a page shows: ids and positions are others each time."""
    text = re.escape(shown).replace(r"\.\.\.", "[0-9a-f-]+")
    return re.sub(r'(?<="position":")[^"]+', r"[\\w.-]+/\\d+/\\d+", text) + r"\s*"
