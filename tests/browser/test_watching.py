"""The watch itself: each thing that no page may do is seen where one does it."""

from __future__ import annotations

import pytest

from tests.browser.visitor import Visitor
from tests.wait import eventually

pytestmark = pytest.mark.services


@pytest.mark.parametrize(
    ("does", "fault"),
    [
        ("document.body.innerHTML = '<img src=x onerror=alert(1)>'", "console: "),
        ("document.body.innerHTML = '<p style=color:red>'", "console: "),
        ("document.body.innerHTML = '<img src=http://other.example/x>'", "console: "),
        ("setTimeout(() => alert('told'))", "dialog: told"),
        ("setTimeout(() => { throw new Error('thrown') })", "script: thrown"),
        ("void (location.href = 'http://127.0.0.1:9/')", "request: http://127.0.0.1:9/"),
        ("void console.error('said')", "console: said"),
    ],
)
def test_what_no_page_may_do_is_a_fault(root: Visitor, does: str, fault: str) -> None:
    root.go("/")
    assert root.faults == []
    root.page.evaluate(does)
    eventually(lambda: root.context.cookies() and any(one.startswith(fault) for one in root.faults))
    root.context.close()  # what one thing leads to may come in several messages
    root.faults.clear()
