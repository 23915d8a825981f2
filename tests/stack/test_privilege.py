"""Elasticsearch started by root: whose folders it uses, what a link may not lead to, and that it ends with us."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from metajournal.stack import elasticsearch, privilege
from metajournal.stack.errors import PrivilegeError
from metajournal.stack.privilege import Unprivileged, unprivileged, write_texts
from metajournal.stack.process import ProcessId, keep
from tests.wait import eventually

OTHER = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the owner of a file")


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder below a closed one; those of other users lie beside it."""
    monkeypatch.setattr(privilege, "_OUTSIDE", tmp_path / "outside")
    (tmp_path / "outside").mkdir()
    closed = tmp_path / "closed"
    closed.mkdir(0o700)
    return closed / "elasticsearch"


def way(owner: int = OTHER) -> Unprivileged:
    return Unprivileged("setpriv", (), owner)


def outside_of(wanted: Path) -> Path:
    """Where the other user's folder is, for whoever wants to be there first."""
    made = way().folder(wanted)
    made.rmdir()
    return made


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_that_the_other_user_can_reach_is_made_for_us_alone_to_write(wanted: Path) -> None:
    made = way().folder(wanted)
    assert made.parent == wanted.parents[1] / "outside"
    assert (made.stat().st_uid, mode(made)) == (os.geteuid(), 0o711)
    assert way().folder(wanted) == made
    assert Unprivileged("ordinary user", (), None).folder(wanted) == wanted


def open_to_all(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


PLANTED: dict[str, Callable[[Path, Path], object]] = {
    "is a link or a file": lambda folder, elsewhere: folder.symlink_to(elsewhere),
    "is a link": lambda folder, elsewhere: folder.symlink_to(elsewhere / "nothing"),
    "or a file": lambda folder, _: folder.touch(),
    "can be written by every user": lambda folder, _: open_to_all(folder),
}


@pytest.mark.parametrize("given", [False, True], ids=["of the program", "of the data"])
@pytest.mark.parametrize("why", PLANTED)
def test_what_another_user_has_put_in_the_folders_place_is_refused_with_what_to_do(
    wanted: Path, tmp_path: Path, why: str, given: bool
) -> None:
    PLANTED[why](outside_of(wanted), tmp_path)
    with pytest.raises(PrivilegeError, match=why) as refused:
        way().folder(wanted, given=given)
    assert refused.value.code == "folder-not-ours"
    assert "delete it" in refused.value.hint


@AS_ROOT
def test_a_folder_of_a_third_user_is_refused_and_one_that_an_earlier_version_gave_away_is_taken_back(
    wanted: Path,
) -> None:
    folder = outside_of(wanted)
    folder.mkdir(0o755)
    os.chown(folder, 4242, 4242)
    for given in (False, True):
        with pytest.raises(PrivilegeError, match="belongs to the user with the id 4242"):
            way().folder(wanted, given=given)
    os.chown(folder, OTHER, OTHER)
    with pytest.raises(PrivilegeError, match=f"id {OTHER}"):
        way().folder(wanted)  # a program of theirs is not started
    assert way().folder(wanted, given=True) == folder
    assert (folder.stat().st_uid, mode(folder)) == (0, 0o755)


@AS_ROOT
def test_what_a_link_leads_to_keeps_its_owner(tmp_path: Path) -> None:
    ours, folder = tmp_path / "ours", tmp_path / "elasticsearch"
    ours.touch()
    for name in ("config", "data"):
        (folder / name / "below").mkdir(parents=True)
    os.chown(folder, OTHER, OTHER)
    (folder / "data" / "link").symlink_to(ours)
    (folder / "data" / "folder").symlink_to(tmp_path)
    way().give(folder, ["config", "data"])
    assert {path.stat().st_uid for path in (ours, tmp_path, folder)} == {0}
    given = [folder / "config", folder / "data", *folder.glob("*/*")]
    assert {path.lstat().st_uid for path in given} == {OTHER}
    assert mode(folder) & 0o011 == 0o011


def test_a_link_in_the_place_of_a_configuration_file_is_replaced_and_never_followed(tmp_path: Path) -> None:
    ours, folder = tmp_path / "ours", tmp_path / "elasticsearch"
    ours.write_text("as it was")
    (folder / "config").mkdir(parents=True)
    for name in ("elasticsearch.yml", "elasticsearch.yml.new", "jvm.options"):
        (folder / "config" / name).symlink_to(ours)
    (folder / "config" / "elasticsearch.keystore").write_text("kept")
    elasticsearch._prepare(folder, (9200, 9300))
    assert ours.read_text() == "as it was"
    files = {path.name: path for path in (folder / "config").iterdir()}
    assert set(files) == {"elasticsearch.yml", "jvm.options", "log4j2.properties", "elasticsearch.keystore"}
    assert not any(path.is_symlink() for path in files.values())
    assert "http.port: 9200" in files["elasticsearch.yml"].read_text()
    assert files["elasticsearch.keystore"].read_text() == "kept"


def test_a_configuration_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    ours, folder = tmp_path / "ours", tmp_path / "elasticsearch"
    ours.mkdir()
    folder.mkdir()
    (folder / "config").symlink_to(ours)
    with pytest.raises(PrivilegeError, match="is a link or a file"):
        elasticsearch._prepare(folder, (9200, 9300))
    assert not list(ours.iterdir())
    with pytest.raises(FileNotFoundError):
        write_texts(folder / "missing", {})


def ways() -> list[Unprivileged]:
    if os.geteuid() != 0:
        return [unprivileged()]
    return [Unprivileged("prefix", prefix, None) for prefix in (privilege._NAMESPACE, privilege._ENDING)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of a parent's death")
@pytest.mark.parametrize("prefix", [one.prefix for one in ways()], ids=lambda prefix: (*prefix, "nothing")[0])
def test_a_program_that_refuses_root_ends_with_its_keeper_however_that_ends(
    tmp_path: Path, prefix: tuple[str, ...]
) -> None:
    if prefix and not privilege._works(prefix):
        pytest.skip(f"{prefix[0]} does not work here")
    server = keep("server", [*prefix, "sleep", "600"], folder=tmp_path)
    try:
        pid = eventually(lambda: server.server_pid, what="a begin")
        program = ProcessId.of(pid)
        assert program is not None
        eventually(lambda: command_of(pid).startswith("sleep"), what="the program itself")
        os.kill(server.keeper_pid, signal.SIGKILL)
        eventually(lambda: not program.alive, what="the program's end")
    finally:
        server.stop()


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


@AS_ROOT
def test_an_old_setpriv_that_cannot_ask_for_the_signal_is_used_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def works(prefix: tuple[str, ...]) -> bool:
        return prefix[0] == "setpriv" and not any("pdeathsig" in argument for argument in prefix)

    monkeypatch.setattr(privilege, "_works", works)
    unprivileged.cache_clear()
    try:
        assert unprivileged() == Unprivileged("setpriv", privilege._SETPRIV, OTHER)
        monkeypatch.setattr(privilege, "_works", lambda prefix: prefix[0] == "setpriv")
        unprivileged.cache_clear()
        assert "--pdeathsig=KILL" in unprivileged().prefix
    finally:
        unprivileged.cache_clear()
