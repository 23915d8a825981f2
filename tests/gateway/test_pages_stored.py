"""Pages of archived files and of repositories over a real server: what they show, and to whom."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote, urlencode

import pytest

from metajournal.domains.repositories import pages
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from tests.gateway.browsing import Browser, logged_in, member, parsed
from tests.gateway.serving import Served, served
from tests.gateway.test_files import record
from tests.gateway.test_pages_hostile import HOSTILE, harmless
from tests.repositories.staying import committed, created

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    ensure_topics(gateway_settings)
    with served(gateway_settings, real=True) as running:
        journal = running.journal
        journal.files.record([*(record("web01", "syslog", number, "job-1") for number in range(120)),
                              record("db01", "audit", 3, "job-2")])  # fmt: skip
        created(journal, "sales")
        created(journal, "hidden")
        main = journal.repositories["sales"].branch("main")
        head = committed(main, "raw/0.csv", "raw/deep/0.csv", "out/0.csv")
        committed(main, "raw/1.csv", "<script>alert(1)</script>")
        journal.repositories["sales"].branch("prices").create(head).position  # noqa: B018
        running.fold()
        yield running


@pytest.fixture(scope="module")
def root(server: Served) -> Browser:
    return logged_in(server, member(server.journal, "root", ("admin", "*")))


@pytest.fixture(scope="module")
def reader(server: Served) -> Browser:
    """Somebody who may read the files of one server, and of one repository one branch."""
    grants = [("analyst", pattern) for pattern in ("file:web01/*", "repo:sales", "branch:sales/main")]
    return logged_in(server, member(server.journal, "reader", *grants))


def test_files_are_found_by_time_work_and_newest(root: Browser) -> None:
    assert "Ask for a time" in root.page("/files").text
    page = root.page("/files?where=web01&what=syslog&start=1970-01-01&end=2030-01-01&work_id=&as_at=")
    assert len(page.all("tbody")[0].all("tr")) == 100
    following = page.all("main")[0].all("form")[-1]
    query = {str(one.attributes["name"]): str(one.attributes["value"]) for one in following.all("input")}
    more = root.page("/files?" + "&".join(f"{name}={value}" for name, value in query.items()))
    assert len(more.all("tbody")[0].all("tr")) == 20
    assert [one.text for one in root.page("/files?work_id=job-2").all("tbody")[0].all("a")] == ["file:db01/audit/f3"]
    newest = root.page("/files?where=web01&what=syslog&latest=1&start=&end=").all("tbody")[0]
    assert [one.text for one in newest.all("a")] == ["file:web01/syslog/f119"]
    assert "No file answers this" in root.page("/files?where=web01&what=none&latest=1").text
    assert root.page("/files?start=1970-01-01", 400).all("p", role="alert")


def test_files_that_may_not_be_read_are_refused(reader: Browser) -> None:
    assert reader.page("/files?where=web01&start=1970-01-01&end=2030-01-01").all("tbody")
    for query in ("where=db01&start=1970-01-01&end=2030-01-01", "work_id=job-2", "where=db01&what=audit&latest=1"):
        assert "You may not do this" in reader.page(f"/files?{query}", 403).text


def test_repositories_branches_log_objects_and_differences_are_shown(root: Browser) -> None:
    listed = root.page("/repositories").all("tbody")[0]
    assert [link.text for link in listed.all("a")] == ["hidden", "sales"]
    page = root.page(str(listed.all("a")[1].attributes["href"]))
    assert [row.all("a")[0].text for row in page.all("tbody")[0].all("tr")] == ["main", "prices"]
    log = root.page("/repositories/sales?ref=main")
    assert len(log.all("ol", **{"class": "hits"})[0].children) >= 2
    objects = root.page("/repositories/sales/objects?ref=main")
    harmless(objects)
    assert {"out/", "raw/"} <= {row.all("td")[0].text for row in objects.all("tbody")[0].all("tr")}
    folder = next(link for link in objects.all("a") if link.text == "raw/").attributes["href"]
    inside = [row.all("td")[0].text for row in root.page(str(folder)).all("tbody")[0].all("tr")]
    assert inside == ["raw/0.csv", "raw/1.csv", "raw/deep/"]
    diff = root.page("/repositories/sales/diff?left=prices&right=main")
    harmless(diff)
    assert "raw/1.csv" in [row.all("td")[1].text for row in diff.all("tbody")[0].all("tr")]
    assert root.get("/repositories/nobody").status == 404


def test_branches_beyond_a_page_are_a_link_away_and_a_chosen_one_shows_on_each(
    root: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_MOST_BRANCHES", 1)

    def shown(path: str) -> tuple[list[str], str, dict[str, str]]:
        page = root.page(path)
        rows = [row.all("td")[0].text for row in page.all("tbody")[0].all("tr")]
        live = page.all("section", **{"data-part": "live"})[0].attributes["data-feed"]
        return rows, str(live), {link.text: str(link.attributes["href"]) for link in page.all("main")[0].all("a")}

    whole = f"/feed?{urlencode({'urn': 'repo:sales,branch:sales/*'})}"
    rows, live, links = shown("/repositories/sales")
    assert (rows, live) == (["main (default)"], whole)
    assert links["More branches"] == "/repositories/sales?after=main"
    rows, live, links = shown(links["More branches"])
    assert (rows, live, "More branches" in links) == (["prices"], whole, False)
    assert links["From the first one"] == "/repositories/sales"
    of_prices = f"/feed?{urlencode({'urn': 'branch:sales/prices'})}"
    rows, live, links = shown("/repositories/sales?ref=prices")
    assert (rows, live) == (["prices (chosen)", "main (default)"], of_prices)
    rows, live, _ = shown(links["More branches"])
    assert (rows, live) == (["prices (chosen)"], of_prices)
    rows, live, _ = shown("/repositories/sales?ref=prices@")
    assert (rows, live) == (["main (default)"], whole)


def test_repositories_and_branches_that_may_not_be_read_do_not_show(reader: Browser) -> None:
    assert [link.text for link in reader.page("/repositories").all("tbody")[0].all("a")] == ["sales"]
    page = reader.page("/repositories/sales")
    assert [row.all("a")[0].text for row in page.all("tbody")[0].all("tr")] == ["main"]
    for path in ("/repositories/hidden", "/repositories/nobody", "/repositories/sales?ref=prices",
                 "/repositories/sales/objects?ref=prices",
                 "/repositories/sales/diff?left=main&right=prices"):  # fmt: skip
        assert reader.get(path).status == 403, path


def test_hostile_questions_make_no_element(root: Browser) -> None:
    for text in HOSTILE:
        for name in ("where", "what", "start", "work_id", "as_at", "cursor", "latest"):
            harmless(parsed(root.get(f"/files?{urlencode({name: text})}").body))
        harmless(parsed(root.get(f"/repositories/{quote(text, safe='')}").body))
        for query in ({"ref": text}, {"left": text, "right": "main"}, {"ref": "main", "prefix": text}):
            for below in ("", "/objects", "/diff"):
                harmless(parsed(root.get(f"/repositories/sales{below}?{urlencode(query)}").body))
