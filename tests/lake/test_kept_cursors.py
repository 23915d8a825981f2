"""A cursor has a short name, which this machine knows: this process, others of the user, and nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metajournal.lake import kept_cursors
from metajournal.lake.kept_cursors import KeptCursors
from metajournal.schemas.errors import InputError

wholes = st.text(st.characters(categories=["L", "N"], max_codepoint=0x7F), min_size=21, max_size=700)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cursors") / "of" / "mine"


@given(st.lists(wholes, unique=True, max_size=5))
def test_a_name_is_short_and_leads_to_its_own_cursor_in_another_process_too(folder: Path, texts: list[str]) -> None:
    mine = KeptCursors(folder)
    names = [mine.name(text) for text in texts]
    assert len(set(names)) == len(texts)
    assert all(len(name) <= 60 for name in names)
    for reader in (mine, KeptCursors(folder)):
        assert [reader.whole(name) for name in names] == texts


@given(wholes)
def test_a_whole_cursor_is_taken_as_it_is(folder: Path, text: str) -> None:
    assert KeptCursors(folder).whole(text) == text


@given(wholes)
def test_a_cursor_that_gets_no_name_is_kept_nowhere(text: str) -> None:
    nowhere = Path("/proc/nowhere")
    assert KeptCursors(nowhere, named=False).name(text) == text
    assert KeptCursors(nowhere).whole(text) == text


def test_what_nobody_has_named_here_is_refused(tmp_path: Path) -> None:
    name = KeptCursors(tmp_path / "mine").name("x" * 600)
    with pytest.raises(InputError, match=f"{name} is not known on this machine: it was created on another one"):
        KeptCursors(tmp_path / "theirs").whole(name)


@pytest.mark.parametrize("content", [b"", b"another cursor", b"\xff\xfe"])
def test_a_file_that_somebody_has_changed_is_refused(tmp_path: Path, content: bytes) -> None:
    name = KeptCursors(tmp_path).name("x" * 600)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError):
        KeptCursors(tmp_path).whole(name)


def test_a_folder_that_cannot_be_written_keeps_nobody_from_the_next_page(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    mine = KeptCursors(tmp_path / "file")
    assert mine.whole(mine.name("x" * 600)) == "x" * 600


def test_the_oldest_go_and_only_the_owner_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_cursors, "KEPT", 10)
    mine = KeptCursors(tmp_path / "mine")
    names = [mine.name(f"{number:0600}") for number in range(200)]
    assert len(list((tmp_path / "mine").iterdir())) <= 10 + kept_cursors._SWEEP_EVERY
    assert mine.whole(names[-1]) == f"{199:0600}"
    with pytest.raises(InputError):
        mine.whole(names[0])
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "mine").iterdir()} == {0o600}
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o700
