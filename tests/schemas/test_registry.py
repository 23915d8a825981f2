"""Domains by their declarations, and their files by their roles."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from metajournal.schemas import registry
from metajournal.schemas.domain import Domain
from metajournal.schemas.registry import changes_of, domains, owner_of_undeclared, role, served_domains


def test_a_role_that_a_domain_has_not_is_none_also_in_a_folder_that_is_not_there() -> None:
    assert role("lineage", "columns.folder") is None
    assert role("catalog", "tables") is None
    assert role("nobody", "rules") is None
    module = role("files", "columns.folder")
    assert module is not None
    assert module.__name__ == "metajournal.domains.files.columns.folder"


@pytest.mark.parametrize("missing", ["surely_not_installed", "weathers.surely_not"])
def test_a_file_that_lacks_something_itself_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """What it imports may be missing, and then the domain must not pass for one without that file."""
    folder = tmp_path / "weathers"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "rules.py").write_text(f"import {missing}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(registry._declared, "weathers", Domain("weathers", "weathers"))
    with pytest.raises(ModuleNotFoundError, match=missing.rpartition(".")[2]):
        role("weathers", "rules")
    monkeypatch.delitem(sys.modules, "weathers", raising=False)


def test_annotations_stand_in_every_topic_and_one_domain_owns_what_nobody_declares() -> None:
    assert [domain.name for domain in domains() if domain.owns_undeclared_kinds] == [owner_of_undeclared()]
    for name in served_domains():
        assert owner_of_undeclared() in changes_of(name)


def test_no_kind_is_declared_twice() -> None:
    kinds = [kind.name for domain in domains() for kind in domain.kinds]
    assert len(kinds) == len(set(kinds))
