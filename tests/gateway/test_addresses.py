"""Where a request comes from, and whose word counts on that: of trusted proxies alone."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from metajournal.gateway.addresses import Proxies
from metajournal.schemas.errors import ConfigError

PROXIES = Proxies(["10.0.0.0/8", "2001:db8::7"])


def request(peer: str | None, *headers: tuple[str, str]) -> Request:
    raw = [(name.lower().encode(), value.encode()) for name, value in headers]
    return Request({"type": "http", "client": None if peer is None else (peer, 1), "headers": raw})


@pytest.mark.parametrize(
    ("peer", "forwarded", "sender"),
    [
        ("192.0.2.1", ["203.0.113.9"], "192.0.2.1"),  # whoever connects by themselves cannot choose an address
        ("192.0.2.1", ["10.0.0.1"], "192.0.2.1"),
        ("10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["203.0.113.9, 198.51.100.7"], "198.51.100.7"),  # what stands before is the sender's own word
        ("10.0.0.1", ["203.0.113.9, 198.51.100.7, 10.9.9.9"], "198.51.100.7"),
        ("10.0.0.1", ["203.0.113.9", "198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["203.0.113.9, unknown"], "10.0.0.1"),
        ("10.0.0.1", ["10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("::ffff:10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("2001:db8::7", ["2001:db8:1:2:3:4:5:6"], "2001:db8:1:2::/64"),
        ("2001:db8::8", ["203.0.113.9"], "2001:db8::/64"),
        (None, ["203.0.113.9"], "unknown"),
    ],
)
def test_a_sender_is_the_nearest_address_that_is_no_trusted_proxy(
    peer: str | None, forwarded: list[str], sender: str
) -> None:
    headers = [("X-Forwarded-For", value) for value in forwarded]
    assert PROXIES.sender(request(peer, *headers)) == sender
    assert Proxies([]).sender(request(peer, *headers)) == Proxies([]).sender(request(peer))


@pytest.mark.parametrize("peer", ["192.0.2.1", "2001:db8::8", "::ffff:192.0.2.1", "not an address", None])
def test_a_user_whom_anybody_but_a_trusted_proxy_names_is_nobody(peer: str | None) -> None:
    """Also where they say that they come through one."""
    forged = [
        ("X-User", "root"),
        ("X-Forwarded-For", "10.0.0.1"),
        ("X-Real-IP", "10.0.0.1"),
        ("Forwarded", "for=10.0.0.1"),
    ]
    assert PROXIES.vouched(request(peer, *forged), "X-User") is None


def test_a_user_whom_a_trusted_proxy_names_is_believed_if_it_is_one() -> None:
    assert PROXIES.vouched(request("10.0.0.1", ("X-User", "ada")), "X-User") == "ada"
    assert PROXIES.vouched(request("10.0.0.1", ("X-User", "ada"), ("X-User", "root")), "X-User") is None
    assert PROXIES.vouched(request("10.0.0.1", ("X-User", "")), "X-User") is None
    assert PROXIES.vouched(request("10.0.0.1", ("X-User", "ada")), "") is None
    assert Proxies([]).vouched(request("10.0.0.1", ("X-User", "ada")), "X-User") is None


@pytest.mark.parametrize("text", ["proxy", "10.0.0.1/8", "10.0.0.0/33", ""])
def test_a_setting_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no address or network"):
        Proxies([text])
