"""What pages load: own files and vendored ones, unchanged, and all of it in the package."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "gateway" / "pages" / "assets"
VENDORED = {"htmx-2.0.11.min.js": "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"}
TEMPLATES = [*(ROOT / "gateway" / "pages").glob("*.html"), *(ROOT / "domains").glob("*/pages/*.html")]


@pytest.mark.parametrize("name", VENDORED)
def test_a_vendored_file_is_unchanged_and_has_its_license_and_reason(name: str) -> None:
    assert sha256((ASSETS / name).read_bytes()).hexdigest() == VENDORED[name]
    assert "Zero-Clause BSD" in (ASSETS / name.replace(".min.js", ".LICENSE.txt")).read_text("utf-8")
    assert f"| gateway/pages/assets/{name} |" in (ROOT / "docs" / "dependencies.md").read_text("utf-8")


def test_every_script_is_vendored() -> None:
    assert {path.name for path in ASSETS.glob("*.js")} == set(VENDORED)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_template_has_no_style_or_script_of_its_own_and_marks_nothing_as_safe(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not re.search(r"\sstyle=|<style|\son[a-z]+=|javascript:|hx-on|hx-vals|\|\s*safe|autoescape|https?://", text)
    assert re.findall(r"<script[^>]*>[^<]*", text) in ([], ['<script src="/assets/htmx-2.0.11.min.js" defer>'])


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_form_that_is_posted_bears_the_sessions_token(path: Path) -> None:
    for form in re.findall(r'<form[^>]*method="post".*?</form>', path.read_text("utf-8"), flags=re.DOTALL):
        assert 'name="token"' in form or "{{ hidden(" in form or 'action="/login"' in form, form


def test_templates_and_assets_are_in_the_package() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["package-data"]
    for path in [*TEMPLATES, *ASSETS.iterdir()]:
        folder = path.parent if path.parent.name == "pages" else path.parents[1]
        package = f"metajournal.{'.'.join(folder.relative_to(ROOT).parts)}"
        assert any(fnmatch(str(path.relative_to(folder)), one) for one in data[package]), path
