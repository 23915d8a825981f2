"""Packages with a domain, installed into a folder of their own: what pip would leave there, without a network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

TOYS = Path(__file__).parent / "metajournal_toys"


def install(site: Path, package: str, entries: Mapping[str, str], folder: Path | None = None) -> Path:
    """Put a package into a folder that is, or will be, on Python's path.

    Args:
        site: the folder.
        package: what pip would call the package.
        entries: its entry points of the group: module by domain.
        folder: its one importable folder, which is linked.
    """
    about = site / f"{package.replace('-', '_')}-1.0.0.dist-info"
    about.mkdir(parents=True)
    about.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0.0\n")
    lines = [f"{name} = {module}" for name, module in entries.items()]
    about.joinpath("entry_points.txt").write_text("\n".join(["[metajournal.domains]", *lines, ""]))
    if folder is not None:
        site.joinpath(folder.name).symlink_to(folder)
    return site


def install_toys(site: Path) -> Path:
    """Install the toys."""
    return install(site, "metajournal-toys", {"toys": "metajournal_toys"}, TOYS)
