"""Which folder of a lake holds which table: one pointer, replaced as a whole.

Without the pointer `tables.json` every table stands under its own name. A rebuild fills fresh tables under `gen-N/`
beside the live ones; replacing the pointer puts all of them in place at once, so readers see the old tables or the new
ones and never some of each. A generation that was begun and not finished is found again by its manifest.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs

from ...schemas.errors import StreamError
from ..declared import SPECS
from .faults import asking, writing
from .locks import in_turn, taken
from .log_damage import LOG
from .store import delete_below, delete_object, is_store, read_object, replace_object, store_files

POINTER = "tables.json"
_MANIFEST = "generation.json"
_OFFER = "offer.json"
_ASIDE = "aside-"
_LOCK = ".lock"
RETIRED_LOG = "_replaced_log"
_STALE_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where the tables are.

    Attributes:
        generation: counts the swaps of this lake; 0 before the first.
        tables: folder by table, relative to the lake; those at their own name are not in it.
    """

    generation: int = 0
    tables: Mapping[str, str] = field(default_factory=dict)

    def folder(self, name: str) -> str:
        return self.tables.get(name, name)


class Generations:
    """The pointer and the generations of one lake.

    Args:
        path: local folder or URI of the lake, without a slash at the end.
        storage_options: options of its store.
    """

    def __init__(self, path: str, storage_options: Mapping[str, str]) -> None:
        self._path = path
        self._store = store_of(path, storage_options)

    def version(self) -> object:
        """Something that differs once the pointer was replaced, cheap to get."""
        return self._store.version(POINTER)

    def swapped_s_ago(self) -> float:
        """Seconds since the pointer was replaced, by the clocks of the machines; 0 where there is none."""
        changed = self._store.changed_s(POINTER)
        return 0.0 if changed is None else time.time() - changed

    def read(self) -> Pointer:
        """The pointer as it stands now.

        Raises:
            StreamError: there is one, and it cannot be read.
        """
        try:
            text = self._store.read(POINTER)
            if text is None:
                return Pointer()
            pointer = json.loads(text)
            return Pointer(
                int(pointer["generation"]), {str(name): str(path) for name, path in pointer["tables"].items()}
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StreamError(
                f"The lake's pointer {self._path}/{POINTER} cannot be read.",
                code="lake-pointer",
                hint="Restore it from a copy. If tables were never rebuilt, delete it: the lake then consists of the "
                "tables in the folders of their own names.",
            ) from error

    def swap(self, pointer: Pointer) -> None:
        """Replace the pointer, in one operation."""
        text = json.dumps({"generation": pointer.generation, "tables": dict(pointer.tables)}, indent=1)
        self._store.replace(POINTER, text + "\n")

    def begun(self, number: int) -> list[str] | None:
        """The tables that a generation was begun with; None where there is none, or a part of one being removed.

        Raises:
            StreamError: there is a manifest, and it cannot be read.
        """
        name = f"{folder(number)}/{_MANIFEST}"
        try:
            text = self._store.read(name)
            if text is None:
                return None
            tables = json.loads(text)["tables"]
            if not isinstance(tables, list) or not set(tables) <= set(SPECS):
                raise ValueError(f"{tables!r} are no tables")
            return list(map(str, tables))
        except (ValueError, KeyError, TypeError) as error:
            raise StreamError(
                f"The manifest of an unfinished rebuild, {self._path}/{name}, cannot be read.",
                code="lake-manifest",
                hint=f"Delete the folder {self._path}/{folder(number)}, which no reader uses yet, and run the "
                "rebuild again.",
            ) from error

    def begin(self, number: int, names: Sequence[str]) -> None:
        """Make room for a generation; whatever stood there without a manifest goes."""
        self.remove(number)
        self._store.replace(f"{folder(number)}/{_MANIFEST}", json.dumps({"tables": list(names)}) + "\n")

    def offer(self, number: int) -> None:
        """Say that a generation is filled and may be swapped in by whoever writes the lake."""
        self._store.replace(f"{folder(number)}/{_OFFER}", "{}\n")

    def withdraw(self, number: int) -> None:
        """Take the offer back."""
        self._store.delete(f"{folder(number)}/{_OFFER}")

    def offered(self, number: int) -> bool:
        """Whether a generation waits to be swapped in; cheap enough to ask between two batches."""
        return self._store.version(f"{folder(number)}/{_OFFER}") is not None

    def remove(self, number: int) -> None:
        """Delete a generation. Its manifest goes first, so that what an interrupted removal leaves is never used."""
        self._store.delete(f"{folder(number)}/{_MANIFEST}")
        self._store.delete_folder(folder(number))

    @contextmanager
    def aside(self) -> Iterator[str]:
        """A folder for tables that are nobody else's, deleted when the block ends; stale ones go first."""
        name = f"{_ASIDE}{uuid.uuid4().hex}"
        with self._store.working_in(name):
            try:
                yield name
            finally:
                self._store.delete_folder(name)

    def retire(self, where: str) -> bool:
        """Move the log of a table that was replaced aside, so that nobody opens it as the live one.

        Its data files stay where they are: who has opened it before goes on reading them.

        Returns:
            Whether there was one.
        """
        return self._store.retire_folder(f"{where}/{LOG}", f"{where}/{RETIRED_LOG}")

    def remove_table(self, name: str) -> None:
        """Delete a table at its own name."""
        self._store.delete_folder(name)


def folder(number: int) -> str:
    """The folder of a generation's tables."""
    return f"gen-{number}"


def store_of(path: str, storage_options: Mapping[str, str]) -> _Folder | _Store:
    """The objects of a lake besides its tables, by their paths relative to it."""
    return _Store(path, storage_options) if is_store(path) else _Folder(path)


class _Folder:
    """Objects of a lake on this machine."""

    def __init__(self, path: str) -> None:
        self._root = Path(path)

    def version(self, name: str) -> object:
        try:
            stat = (self._root / name).stat()
        except FileNotFoundError:
            return None
        return stat.st_ino, stat.st_mtime_ns, stat.st_size

    def changed_s(self, name: str) -> float | None:
        """When an object was written last, seconds since the epoch; None where there is none."""
        try:
            return (self._root / name).stat().st_mtime
        except FileNotFoundError:
            return None

    def read(self, name: str) -> str | None:
        try:
            return (self._root / name).read_text("utf-8")
        except FileNotFoundError:
            return None

    def read_bytes(self, name: str) -> bytes | None:
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, name: str, text: str) -> None:
        self.replace_bytes(name, text.encode())

    def replace_bytes(self, name: str, content: bytes) -> None:
        target = self._root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)

    def delete(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def delete_folder(self, name: str) -> None:
        if (self._root / name).exists():
            shutil.rmtree(self._root / name)

    def retire_folder(self, name: str, aside: str) -> bool:
        """Move a folder aside; one that came back after it was moved is deleted. Tells whether it was there."""
        try:
            (self._root / name).rename(self._root / aside)
        except FileNotFoundError:
            return False
        except OSError:
            if not (self._root / aside).exists():
                raise
            shutil.rmtree(self._root / name)
        return True

    @contextmanager
    def working_in(self, name: str) -> Iterator[None]:
        """Whoever works in a folder aside holds a lock in it, so those without a holder are stale."""
        with ExitStack() as locks:
            with in_turn(self._root, "aside"):  # so that nobody meets a folder whose lock is not taken yet
                for lock in self._root.glob(f"{_ASIDE}*/{_LOCK}"):
                    with lock.open("ab") as file:
                        stale = taken(file)
                    if stale:
                        shutil.rmtree(lock.parent)
                (self._root / name).mkdir()
                taken(locks.enter_context((self._root / name / _LOCK).open("ab")))
            yield


class _Store:
    """Objects of a lake in a store, where putting an object replaces it as a whole."""

    def __init__(self, path: str, storage_options: Mapping[str, str]) -> None:
        self._path, self._options = path, dict(storage_options)

    @property
    def _files(self) -> Any:
        return store_files(self._path, self._options)

    def version(self, name: str) -> object:
        return self.read(name)

    def changed_s(self, name: str) -> float | None:
        with asking(self._path):
            info = self._files.get_file_info(name)
        return None if info.type == pafs.FileType.NotFound or info.mtime is None else info.mtime.timestamp()

    def read(self, name: str) -> str | None:
        content = self.read_bytes(name)
        return None if content is None else content.decode()

    def read_bytes(self, name: str) -> bytes | None:
        with asking(self._path):
            return read_object(self._files, name)

    def replace(self, name: str, text: str) -> None:
        self.replace_bytes(name, text.encode())

    def replace_bytes(self, name: str, content: bytes) -> None:
        with writing(self._path):
            replace_object(self._files, name, content)

    def delete(self, name: str) -> None:
        with writing(self._path):
            delete_object(self._files, name)

    def delete_folder(self, name: str) -> None:
        with writing(self._path):
            delete_below(self._files, name)

    def retire_folder(self, name: str, aside: str) -> bool:
        """Delete a log, which a store cannot move: what remains of one that is interrupted must not be an older table.

        So the hint of the newest checkpoint goes first, then the checkpoints, then the commits, the oldest first.
        """
        with writing(self._path):
            infos = self._files.get_file_info(pafs.FileSelector(name, allow_not_found=True, recursive=True))
            paths = [info.path for info in infos if info.type == pafs.FileType.File]
            for path in sorted(paths, key=lambda path: (path.endswith(".json"), path)):
                delete_object(self._files, path)
        return bool(paths)

    @contextmanager
    def working_in(self, name: str) -> Iterator[None]:
        """A store has no locks: folders aside in which nothing was written for a day are stale."""
        newest: dict[str, float] = {}
        for folder in self._files.get_file_info(pafs.FileSelector("", allow_not_found=True)):
            if not folder.path.startswith(_ASIDE):
                continue
            for info in self._files.get_file_info(pafs.FileSelector(folder.path, allow_not_found=True, recursive=True)):
                if info.type == pafs.FileType.File and info.mtime is not None:
                    newest[folder.path] = max(newest.get(folder.path, 0.0), info.mtime.timestamp())
        for top, written_s in newest.items():
            if time.time() - written_s > _STALE_S:
                self.delete_folder(top)
        yield
