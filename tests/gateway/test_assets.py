"""What pages load: own files and vendored ones, unchanged, and all of it in the package."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from gzip import compress, decompress
from hashlib import sha256
from pathlib import Path

import pytest
from starlette.requests import Request

from metajournal.gateway.assets import Assets
from metajournal.gateway.problems import HttpError
from metajournal.gateway.templates import OWN as PACKAGE

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "gateway" / "pages" / "assets"
VENDORED = {
    "htmx-2.0.11.min.js": ("d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717", "Zero-Clause BSD"),
    "dagre-3.1.3.min.js": ("54a503e346f93ca0bb10abe7999587e037262935687aca45eb4e4b0f64bbb578", "free of charge"),
}
OWN = {path.name for path in ASSETS.glob("*.js")} - set(VENDORED)
FIRST_VISIT_BYTES, ANY_PAGE_BYTES = 55_000, 40_000
SCRIPTS = [
    '<script src="{{ assets }}/htmx-2.0.11.min.js" defer>', '<script src="{{ assets }}/page.js" type="module">',
]  # fmt: skip
TEMPLATES = [*(ROOT / "gateway" / "pages").glob("*.html"), *(ROOT / "domains").glob("*/pages/*.html")]


@pytest.mark.parametrize("name", VENDORED)
def test_a_vendored_file_is_unchanged_and_has_its_license_and_reason(name: str) -> None:
    assert sha256((ASSETS / name).read_bytes()).hexdigest() == VENDORED[name][0]
    assert VENDORED[name][1] in (ASSETS / name.replace(".min.js", ".LICENSE.txt")).read_text("utf-8")
    assert f"| gateway/pages/assets/{name} |" in (ROOT / "docs" / "dependencies.md").read_text("utf-8")


@pytest.mark.parametrize("name", sorted(OWN))
def test_an_own_script_says_its_job_evaluates_nothing_and_styles_nothing(name: str) -> None:
    text = (ASSETS / name).read_text("utf-8")
    assert text.startswith("// ")
    assert not re.search(
        r"eval\(|Function\(|innerHTML|outerHTML|insertAdjacent|document\.write|\.style\b|https?://(?!www\.w3\.org/2000/svg)",
        text,
    )


def test_a_first_visit_is_small_with_and_without_the_drawing() -> None:
    sizes = {path.name: len(compress(path.read_bytes(), 9)) for path in ASSETS.iterdir() if path.suffix != ".txt"}
    assert sum(sizes.values()) < FIRST_VISIT_BYTES
    assert sum(size for name, size in sizes.items() if not name.startswith(("dagre", "graph"))) < ANY_PAGE_BYTES


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_template_has_no_style_or_script_of_its_own_and_marks_nothing_as_safe(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not re.search(r"\sstyle=|<style|\son[a-z]+=|javascript:|hx-on|hx-vals|\|\s*safe|autoescape|https?://", text)
    assert re.findall(r"<script[^>]*>[^<]*", text) in ([], SCRIPTS)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_form_that_is_posted_bears_the_sessions_token(path: Path) -> None:
    for form in re.findall(r'<form[^>]*method="post".*?</form>', path.read_text("utf-8"), flags=re.DOTALL):
        assert 'name="token"' in form or "{{ hidden(" in form or 'action="/login"' in form, form


@pytest.fixture(scope="module")
def assets() -> Assets:
    return Assets(PACKAGE, {"X-Safe": "1"})


def asked(accept: str = "", etag: str = "") -> Request:
    headers = [(b"accept-encoding", accept.encode()), (b"if-none-match", etag.encode())]
    return Request({"type": "http", "method": "GET", "path": "/", "headers": headers})


@pytest.mark.parametrize("name", sorted(path.name for path in ASSETS.iterdir() if path.suffix != ".txt"))
def test_a_file_is_sent_compressed_and_kept_for_long(assets: Assets, name: str) -> None:
    state = assets.base.rpartition("/")[2]
    plain, packed = (assets.answer(asked(accept), state, name) for accept in ("", "br, gzip"))
    assert plain.body == decompress(packed.body) == (ASSETS / name).read_bytes()
    assert (packed.headers["content-encoding"], "content-encoding" in plain.headers) == ("gzip", False)
    assert plain.headers["etag"] != packed.headers["etag"]
    for answer in (plain, packed):
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert (answer.headers["vary"], answer.headers["x-safe"]) == ("Accept-Encoding", "1")
    assert assets.answer(asked("gzip", packed.headers["etag"]), state, name).status_code == 304
    assert assets.answer(asked("", packed.headers["etag"]), state, name).status_code == 200


def test_an_address_of_another_state_gives_what_is_there_and_is_not_kept(assets: Assets) -> None:
    answer = assets.answer(asked(), "0", "page.js")
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-cache")


@pytest.mark.parametrize(
    ("accept", "is_packed"),
    [("gzip", True), ("br;q=1, GZIP ;q=0.5", True), ("gzip;q=0", False), ("gzip;q=0.0, br", False), ("xgzip", False),
     ("gzip;q=1.0", True), ("*", False)],
)  # fmt: skip
def test_a_file_is_compressed_for_those_alone_who_take_it(assets: Assets, accept: str, is_packed: bool) -> None:
    assert ("content-encoding" in assets.answer(asked(accept), "0", "page.js").headers) is is_packed


@pytest.mark.parametrize("name", ["none.js", "", ".", "htmx-2.0.11.LICENSE.txt", "../pages/home.html"])
def test_nothing_else_is_sent(assets: Assets, name: str) -> None:
    with pytest.raises(HttpError) as refused:
        assets.answer(asked(), "0", name)
    assert refused.value.status == 404


def test_templates_and_assets_are_in_the_package() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["package-data"]
    for path in [*TEMPLATES, *ASSETS.iterdir()]:
        folder = path.parent if path.parent.name == "pages" else path.parents[1]
        package = f"metajournal.{'.'.join(folder.relative_to(ROOT).parts)}"
        assert any(fnmatch(str(path.relative_to(folder)), one) for one in data[package]), path
