"""A version of metajournal that has toys as a domain of its own, and an earlier one that reserved their boxes."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree

from tests.toys.installing import TOYS

_SITE = "import metajournal.domains\nmetajournal.domains.__path__.append({folder!r})\n"
_EARLIER = """
from metajournal.schemas.domain import Domain, Kind
DOMAIN = Domain("toys", __package__, kinds=(Kind("toybox", "toys", 1, 1),), served=False)
"""


def version_with_toys(site: Path) -> Path:
    """A folder for Python's path: our own domains are those that there are, and `toys`, which joins journals."""
    folder = copytree(TOYS, site / "domains" / "toys")
    declared = folder.joinpath("domain.py").read_text()
    reason = 'reasons=("unknown-toy",),'
    assert reason in declared
    folder.joinpath("domain.py").write_text(declared.replace(reason, f'{reason} reserved=("toybox",),'))
    return _with(site)


def version_before(site: Path) -> Path:
    """The same of an earlier version: `toybox` is reserved, `toy` is a kind that nobody declares."""
    folder = site / "domains" / "toys"
    folder.mkdir(parents=True)
    folder.joinpath("__init__.py").touch()
    folder.joinpath("domain.py").write_text(_EARLIER)
    return _with(site)


def _with(site: Path) -> Path:
    site.joinpath("sitecustomize.py").write_text(_SITE.format(folder=str(site / "domains")))
    return site
