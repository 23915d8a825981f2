"""Sessions over real servers and the real journal: how one gets a cookie, what it is good for, and how it ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from urllib.parse import quote, unquote

import pytest

from metajournal import Journal
from metajournal.commands.serving import principals_of
from metajournal.domains.access.keys import CODE_LABEL, SESSION_LABEL
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from tests.gateway.browsing import Browser, logged_in, member, parsed, token_of
from tests.gateway.serving import Served, beside, running, served
from tests.wait import eventually

pytestmark = pytest.mark.services
ME = "/api/v1/access/me"


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    ensure_topics(gateway_settings)
    with served(gateway_settings, real=True) as running:
        yield running


@pytest.fixture(scope="module")
def root(server: Served) -> str:
    key = member(server.journal, "root", ("admin", "*"))
    eventually(lambda: server.get(ME, key=key).status == 200)
    return key


@pytest.fixture
def second(server: Served, gateway_settings: Settings) -> Iterator[str]:
    """The address of another server before the same journal, which believes this machine's proxy."""
    believing = replace(gateway_settings.gateway, trusted_proxies=("127.0.0.0/8",), user_header="X-User")
    settings = replace(gateway_settings, gateway=believing)
    with Journal.connect(settings) as journal, closing(principals_of(journal, 30)) as principals:
        eventually(principals.heard)
        with running(journal, principals, settings) as address:
            yield address


def code_of(server: Served, name: str) -> str:
    """A new one-time code, acknowledged."""
    until_ms = int(time.time() * 1000) + 600_000
    code, receipt = server.journal.access.issue_key(name, label=CODE_LABEL, once=True, not_after=until_ms)
    receipt.position  # noqa: B018
    return code.text


def test_a_key_becomes_a_cookie_and_the_page_asked_for_is_shown(server: Served, root: str) -> None:
    browser = Browser(server)
    asked = browser.get("/search?query=a%20b&kind=dataset")
    assert (asked.status, asked.headers["location"]) == (
        303, "/login?next=%2Fsearch%3Fquery%3Da%2520b%26kind%3Ddataset",
    )  # fmt: skip
    form = browser.page(asked.headers["location"]).all("form", method="post")[0]
    answer = browser.submit(form, key=root)
    assert (answer.status, answer.headers["location"]) == (303, "/search?query=a%20b&kind=dataset")
    port = server.address.rpartition(":")[2]
    name, *attributes = answer.headers["set-cookie"].split("; ")
    assert name.startswith(f"mj-{port}=mjk_")
    assert attributes == ["Path=/", "Max-Age=43200", "HttpOnly", "SameSite=Lax"]
    assert browser.get("/").status == 200


def test_a_session_is_no_bearers_key_and_a_key_no_cookie(server: Served, root: str) -> None:
    browser = logged_in(server, root)
    assert browser.cookie is not None
    name, _, session = browser.cookie.partition("=")
    assert server.get(ME, key=session).status == 401
    assert browser.get("/", Cookie=f"{name}={root}").status == 303
    assert browser.get("/", Authorization=f"Bearer {root}", Cookie="a=b").status == 303


def test_paths_of_the_api_do_not_read_cookies(server: Served, root: str) -> None:
    browser = logged_in(server, root)
    for path in (ME, "/api/v1/search", "/v3/namespaces/default/datasets/a/metadata"):
        assert browser.get(path, Accept="*/*").status == 401
    assert browser.ask("POST", "/api/v1/events", b"{}", Content_Type="application/json", Accept="*/*").status == 401


def test_logging_out_ends_the_session_in_every_process(server: Served, root: str, second: str) -> None:
    browser = logged_in(server, root)
    elsewhere = Browser(server, second)
    assert browser.cookie is not None
    named = f"mj-{second.rpartition(':')[2]}={browser.cookie.partition('=')[2]}"
    eventually(lambda: elsewhere.get("/", Cookie=named).status == 200)
    kept, page = browser.cookie, browser.page("/")
    answer = browser.submit(page.all("form", action="/logout")[0])
    assert (answer.status, answer.headers["location"]) == (303, "/login")
    assert not browser.cookie
    eventually(lambda: browser.get("/", Cookie=kept).status == 303)
    eventually(lambda: elsewhere.get("/", Cookie=named).status == 303)


def test_a_new_session_is_taken_by_the_next_process_though_it_hears_of_it_later(
    server: Served, root: str, second: str
) -> None:
    for _ in range(10):
        browser = logged_in(server, root)
        assert browser.cookie is not None
        elsewhere = Browser(server, second)
        elsewhere.cookie = f"mj-{second.rpartition(':')[2]}={browser.cookie.partition('=')[2]}"
        answer = elsewhere.get("/keys")
        while answer.status == 303:
            assert answer.headers["location"] in ("/login?next=%2Fkeys", "/keys")
            answer = elsewhere.get(answer.headers["location"])
        assert "All keys" in parsed(answer.body).text


def test_a_login_ends_sessions_that_have_expired(server: Served, root: str) -> None:
    access, key = server.journal.access, member(server.journal, "returning", ("analyst", "*"))
    for number in range(12):
        access.issue_key("returning", label=SESSION_LABEL, not_after=1_000 + number)[1].position  # noqa: B018
    access.issue_key("returning", label="a key that has expired", not_after=1_000)[1].position  # noqa: B018
    later, _ = access.issue_key("returning", label="later")
    eventually(lambda: server.get(ME, key=later.text).status == 200)  # so it has heard of all those before
    logged_in(server, key)
    left = [one.label for one in access.keys("returning")]
    assert left.count(SESSION_LABEL) == 3  # two of the expired ones, and the new one
    logged_in(server, key)
    left = [one.label for one in access.keys("returning")]
    assert sorted(left) == ["", "a key that has expired", "later", SESSION_LABEL, SESSION_LABEL]


def test_a_disabled_principals_session_ends(server: Served, root: str) -> None:
    browser = logged_in(server, member(server.journal, "leaver", ("analyst", "*")))
    assert browser.get("/").status == 200
    server.journal.access.disable("leaver")
    eventually(lambda: browser.get("/").status == 303)


def test_of_two_buyers_of_a_code_at_two_servers_one_gets_a_session(server: Served, root: str, second: str) -> None:
    member(server.journal, "buyer", ("analyst", "*"))
    for _ in range(5):
        code = code_of(server, "buyer")
        later, _ = server.journal.access.issue_key("buyer")
        buyers = [Browser(server), Browser(server, second)]
        for buyer in buyers:  # who has heard of what was issued later has heard of the code
            eventually(partial(knows, buyer, later.text))
        with ThreadPoolExecutor(2) as both:
            answers = list(both.map(Browser.log_in, buyers, [code, code]))
        assert sorted(answer.status for answer in answers) == [303, 401]
        lost = parsed(answers[[answer.status for answer in answers].index(401)].body)
        assert "This code was used already." in lost.text or "not a key or a code that is valid now" in lost.text
        winner = buyers[[answer.status for answer in answers].index(303)]
        assert winner.get("/").status == 200


def knows(buyer: Browser, key: str) -> bool:
    """Whether a server takes a key."""
    return buyer.server.get(ME, key=key, address=buyer.address).status == 200


def test_a_code_is_not_used_by_reading_the_login_page(server: Served, root: str) -> None:
    member(server.journal, "previewed", ("analyst", "*"))
    code = code_of(server, "previewed")
    for method in ("GET", "HEAD"):
        assert Browser(server).ask(method, "/login").status == 200
    eventually(lambda: Browser(server).log_in(code).status == 303)
    again = Browser(server).log_in(code)
    assert again.status == 401
    assert again.headers.get("set-cookie") is None


def test_the_page_of_a_link_fills_in_its_code_and_uses_it_once_it_is_sent(server: Served, root: str) -> None:
    member(server.journal, "linked", ("analyst", "*"))
    code = server.journal.access.issue_code("linked")[0].text
    browser = Browser(server)
    for _ in range(2):
        form = browser.page(f"/login?code={code}&next=/keys").all("form")[0]
        assert form.all("input", name="key")[0].attributes["value"] == code
    answer = eventually(lambda: sent if (sent := browser.submit(form)).status == 303 else None)
    assert answer.headers["location"] == "/keys"
    assert "linked" in browser.page("/").all("header")[0].text
    assert Browser(server).submit(form).status == 401
    assert browser.get(f"/login?code={code}").headers["location"] == "/"


def test_a_code_in_a_link_is_text_and_a_code_that_has_expired_buys_nothing(server: Served, root: str) -> None:
    hostile = quote('"><script>alert(1)</script>')
    form = Browser(server).page(f"/login?code={hostile}").all("form")[0]
    assert form.all("input", name="key")[0].attributes["value"] == unquote(hostile)
    member(server.journal, "late", ("analyst", "*"))
    expired, _ = server.journal.access.issue_key("late", label=CODE_LABEL, once=True, not_after=1_000)
    later, _ = server.journal.access.issue_key("late")
    eventually(lambda: server.get(ME, key=later.text).status == 200)  # so it has heard of the code
    assert Browser(server).log_in(expired.text).status == 401


@pytest.mark.parametrize(
    "back",
    [
     "//evil.example/", "https://evil.example/", "/\\evil.example", "\\\\evil.example", "/\t/evil.example",
     "javascript:alert(1)", "evil", "", "/\r\nSet-Cookie: a=b", "/login", "/logout?x", "///evil.example", "/ü",
     "/#//evil"],
)  # fmt: skip
def test_a_login_does_not_lead_to_another_site(server: Served, root: str, back: str) -> None:
    answer = Browser(server).log_in(root, back)
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert answer.headers["set-cookie"].startswith("mj-")


def test_a_form_of_another_page_or_session_does_nothing(server: Served, root: str) -> None:
    browser = logged_in(server, root)
    other = logged_in(server, member(server.journal, "mallory", ("admin", "*")))
    foreign, own = token_of(other.page("/")), token_of(browser.page("/"))
    forged: list[dict[str, str]] = [{}, {"token": ""}, {"token": "0" * 128}, {"token": "x"}, foreign]
    for fields in forged:
        answer = browser.send("/logout", fields)
        assert answer.status == 403, fields
        assert "nothing was done" in parsed(answer.body).text
    for headers in ({"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}, {"Origin": "null"},
                    {"Origin": "https://evil.example"}):  # fmt: skip
        assert browser.send("/logout", own, **headers).status == 403, headers
        assert Browser(server).send("/login", {"key": root}, **headers).status == 403, headers
    assert browser.get("/").status == 200
    assert token_of(browser.page("/")) != own  # masked anew
    assert browser.send("/logout", own, Sec_Fetch_Site="same-origin").status == 303


def test_a_key_opens_no_more_sessions_than_it_may_ask_for_at_once(
    server: Served, root: str, gateway_settings: Settings
) -> None:
    few = replace(gateway_settings.gateway, requests_per_s=0.01, burst=2)
    key = member(server.journal, "opens-many", ("analyst", "*"))
    with beside(replace(gateway_settings, gateway=few)) as address:
        statuses = [Browser(server, address).send("/login", {"key": key}).status for _ in range(3)]
        assert statuses == [303, 303, 429]
        assert Browser(server, address).send("/login", {"key": root}).status == 303


def test_sessions_of_one_principal_share_what_it_may_ask_for(
    server: Served, root: str, gateway_settings: Settings
) -> None:
    few = replace(gateway_settings.gateway, requests_per_s=0.01, burst=3)
    key = member(server.journal, "asks-twice", ("analyst", "*"))
    with beside(replace(gateway_settings, gateway=few)) as address:
        first, second = Browser(server, address), Browser(server, address)
        assert [one.log_in(key).status for one in (first, second)] == [303, 303]
        assert [one.get("/event").status for one in (first, second, first, second)] == [200, 200, 200, 429]


def test_failed_logins_of_an_address_are_throttled_and_a_proxys_word_is_believed(
    server: Served, root: str, second: str, gateway_settings: Settings
) -> None:
    """At the server that believes its proxy, addresses are told apart; at the other nobody can choose one."""
    guessing = Browser(server, second)
    statuses = [guessing.send("/login", {"key": "mjk_x"}, X_Forwarded_For="192.0.2.1").status for _ in range(12)]
    assert statuses[:10] == [401] * 10
    assert statuses[-1] == 429
    blocked = guessing.send("/login", {"key": root}, X_Forwarded_For="203.0.113.9, 192.0.2.1")
    assert (blocked.status, "retry-after" in blocked.headers) == (429, True)
    assert guessing.send("/login", {"key": root}, X_Forwarded_For="192.0.2.2").status == 303
    with beside(gateway_settings) as address:
        elsewhere = [
            Browser(server, address).send("/login", {"key": "mjk_x"}, X_Forwarded_For=f"192.0.2.{number}").status
            for number in range(12)
        ]
    assert elsewhere[:10] == [401] * 10
    assert elsewhere[-1] == 429


def test_who_a_trusted_proxy_names_gets_a_session_of_that_principal_alone(
    server: Served, root: str, second: str
) -> None:
    member(server.journal, "ada", ("analyst", "*"))
    browser = Browser(server, second)
    form = parsed(browser.get("/login", X_User="ada").body).all("form")[0]
    assert form.all("button")[0].text == "Continue as ada"
    eventually(lambda: browser.send("/login", {"as": "proxy"}, X_User="ada").status == 303)
    assert "ada" in parsed(browser.get("/", X_User="ada").body).all("header")[0].text
    assert browser.get("/", X_User="bob").status == 303  # somebody else sits there now
    assert browser.send("/login", {"as": "proxy"}, X_User="nobody").status == 401
    assert Browser(server).send("/login", {"as": "proxy"}, X_User="ada").status == 401  # not believed there


def test_a_cookie_that_is_given_twice_or_is_none_is_nobodys(server: Served, root: str) -> None:
    browser = logged_in(server, root)
    assert browser.cookie is not None
    name = browser.cookie.partition("=")[0]
    for cookie in (f"{browser.cookie}; {name}=x", f"{name}=", f"{name}={'x' * 5000}", f"{name}=mjk_", name, ";;="):
        assert browser.get("/", Cookie=cookie).status == 303, cookie


def test_pages_forbid_frames_scripts_of_others_and_caches(server: Served, root: str) -> None:
    browser = logged_in(server, root)
    for path, status in (("/", 200), ("/login", 303), ("/no-such-page", 404), ("/assets/0/style.css", 200)):
        answer = browser.get(path)
        assert answer.status == status, path
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'"), path
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert browser.get("/").headers["cache-control"] == "no-store"


def test_an_address_that_is_none_is_a_page_for_browsers_and_a_problem_for_programs(server: Served, root: str) -> None:
    browser = logged_in(server, root)
    assert "There is nothing here" in browser.page("/no-such-page", 404).text
    assert browser.get("/no-such-page", Accept="*/*").headers["content-type"] == "application/problem+json"
    assert browser.get("/api/v1/none").headers["content-type"] == "application/problem+json"


def test_behind_tls_the_cookie_is_of_this_host_alone(gateway_settings: Settings, server: Served, root: str) -> None:
    settings = replace(gateway_settings, gateway=replace(gateway_settings.gateway, behind_proxy=True))
    with Journal.connect(settings) as journal, closing(principals_of(journal, 30)) as principals:
        eventually(principals.heard)
        with running(journal, principals, settings) as address:
            browser = Browser(server, address)
            answer = browser.log_in(root)
            pair, *attributes = answer.headers["set-cookie"].split("; ")
            assert pair.startswith("__Host-mj=")
            assert attributes == ["Path=/", "Max-Age=43200", "HttpOnly", "SameSite=Lax", "Secure"]
            assert browser.get("/").status == 200
