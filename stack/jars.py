"""Brings every jar and the Elasticsearch zip with one Ivy file and the Ivy that pyspark ships.

So a machine needs Python and Java and nothing else. What the files must be stands in `parts`; showing progress is left
to the caller (`progress`). Invariants: with all files here nothing is run and no network is touched; two processes
never install at once; an interrupted install goes on where it stopped (Ivy keeps what has come).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

from ..schemas.errors import MissingExtraError
from ..streaming.spark.classes import archive_of, record
from .errors import PartsCorruptError, PartsUnavailableError
from .java import Java, find_java
from .parts import GROUPS, ON_DEMAND, Part, Parts, file_digest, known_parts, move_checked, parts_in
from .places import cache_folder
from .progress import Progress, Report, shown
from .versions import ELASTICSEARCH

_POLL_S = 0.3
_RECORDING = "recording Spark's classes, once"


def ensure_parts(groups: Sequence[str] = GROUPS, *, cache: Path | None = None, report: Report | None = None) -> Parts:
    """Make sure that the files of these groups are here, downloading what is missing.

    Args:
        groups: any of "spark", "kafka", "elasticsearch", "s3proxy", "s3a".
        cache: the cache folder; the user's by default.
        report: called now and then while something is downloaded; never when everything is here.
    Raises:
        JavaMissingError, JavaVersionError: Ivy cannot run.
        MissingExtraError: pyspark, which brings Ivy, is not installed.
        PartsUnavailableError: something could not be downloaded.
        PartsCorruptError: a downloaded file has other bytes than it must have.
    """
    root = cache or cache_folder()
    parts = parts_in(root)
    if all(parts.complete(group) for group in groups):
        return parts
    java, ivy = find_java(), ivy_jar()
    with _alone(root) as lock:
        missing = [group for group in groups if not parts.complete(group)]
        if missing:
            _install(root, parts, missing, [str(java.executable), *_ivy_options(root), "-jar", str(ivy)], lock, report)
    return parts


def ensure_all(*, cache: Path | None = None, report: Report | None = None) -> Parts:
    """Every group of `ensure_parts`, and the archive of Spark's classes, which is recorded beside the downloads."""
    parts = parts_in(cache or cache_folder())
    if not _lacks_classes(parts):
        return ensure_parts(cache=cache, report=report)
    with ThreadPoolExecutor(1) as beside:
        recording = beside.submit(_ensure_classes, parts)
        ensure_parts(cache=cache, report=report)
        while not recording.done():
            _tell(report, _RECORDING, 0, 0)
            wait([recording], _POLL_S)
        recording.result()
    return parts


def spark_jars(*, cache: Path | None = None, report: Report | None = None) -> list[str]:
    """Paths of the jars that the stream needs besides Spark's own, with the archive of Spark's classes beside them.

    Raises as `ensure_parts` does.
    """
    parts = ensure_parts(("spark",), cache=cache, report=report)
    _ensure_classes(parts, report)
    return [str(jar) for jar in parts.files("spark")]


def _ensure_classes(parts: Parts, report: Report | None = None) -> None:
    """See that the archive is there, where one can be."""
    if archive := _lacks_classes(parts):
        with suppress(OSError), _alone(archive.parent):
            if not archive.exists():
                _tell(report, _RECORDING, 0, 0)
                record(archive)


def _lacks_classes(parts: Parts) -> Path | None:
    """The archive of Spark's classes, if it is not there and could be."""
    archive = archive_of(parts.folder("spark"))
    return None if archive is None or archive.exists() else archive


def elasticsearch_home(parts: Parts, folder: Path | None = None) -> Path:
    """The unpacked Elasticsearch, below `folder` (next to the zip by default); unpacked when it is not there yet."""
    base = folder or parts.root
    home = base / f"elasticsearch-{ELASTICSEARCH}"
    if home.is_dir():
        return home
    base.mkdir(parents=True, exist_ok=True)
    with _alone(base):
        if not home.is_dir():
            with tempfile.TemporaryDirectory(dir=base) as scratch:
                _unzip(parts.files("elasticsearch")[0], Path(scratch))
                (Path(scratch) / home.name).rename(home)
    return home


def ivy_jar() -> Path:
    """The Ivy inside pyspark."""
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError("stream", "Downloading the jars (with the Ivy that pyspark ships)")
    jars = sorted((Path(spec.submodule_search_locations[0]) / "jars").glob("ivy-*.jar"))
    if not jars:
        raise MissingExtraError("stream", "Downloading the jars (this pyspark contains no Ivy)")
    return jars[-1]


def _ivy_options(root: Path) -> list[str]:
    time_outs = ["-Dsun.net.client.defaultConnectTimeout=20000", "-Dsun.net.client.defaultReadTimeout=60000"]
    return ["-Xmx256m", f"-Divy.default.ivy.user.dir={root / 'ivy'}", *time_outs]


def _ivy_arguments(ivy_xml: Path, groups: Sequence[str], staging: Path) -> list[str]:
    own = os.environ.get("METAJOURNAL_IVY_SETTINGS")
    pattern = f"{staging}/[conf]/[artifact]-[revision](-[classifier]).[ext]"
    settings = ["-settings", own] if own else []
    return [*settings, "-ivy", str(ivy_xml), "-confs", *groups, "-retrieve", pattern]


def _install(root: Path, parts: Parts, groups: list[str], ivy: list[str], lock: int, report: Report | None) -> None:
    """Steps: 1. Ivy downloads to its cache and copies to a staging folder, 2. each file is checked, 3. it moves."""
    staging = root / "staging"
    shutil.rmtree(staging, ignore_errors=True)
    _run_ivy(root, groups, staging, ivy, lock, report)
    wanted = known_parts(groups)
    total = sum(part.size_bytes for part in wanted)
    _tell(report, "checking", total, total)
    wrong = []
    for group in groups:
        bad = move_checked(staging / group, parts.folder(group), [p for p in wanted if p.group == group])
        wrong += bad
        if not bad:
            parts.seal(group)
    shutil.rmtree(staging, ignore_errors=True)
    if wrong:
        _forget(root / "ivy", wrong)
        names = tuple(f"{part.group}/{part.name}" for part in wrong)
        raise PartsCorruptError(f"These files do not match stack/checksums.txt: {', '.join(names)}.", files=names)
    _tell(report, "done", total, total)


def _run_ivy(
    root: Path, groups: Sequence[str], staging: Path, ivy: list[str], lock: int, report: Report | None
) -> None:
    log = root / "ivy.log"
    wanted = known_parts(groups)
    total = sum(part.size_bytes for part in wanted)
    _tell(report, "resolving", 0, total)
    with as_file(files(__package__).joinpath("ivy.xml")) as xml, log.open("wb") as out:
        command = [*ivy, *_ivy_arguments(xml, groups, staging)]
        # Ivy inherits the lock, so that it stays held when this process is killed while Ivy still writes.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, pass_fds=(lock,)
        )
        try:
            while _running(process):
                arrived = _arrived(root / "ivy", wanted)
                _tell(report, "downloading" if arrived else "resolving", arrived, total)
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if process.returncode != 0:
        raise PartsUnavailableError(f"Some files could not be downloaded: {_why(log)} (log: {log}).", log=log)


def _running(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_POLL_S)
    except subprocess.TimeoutExpired:
        return True
    return False


def _arrived(ivy: Path, wanted: Sequence[Part]) -> int:
    """Bytes that Ivy's cache holds of the wanted files, unfinished ones included."""
    names = {part.name for part in wanted}
    arrived = 0
    for folder, _, entries in os.walk(ivy / "cache"):
        for name in entries:
            if name.removesuffix(".part") in names:
                arrived += _size(Path(folder) / name)
    return min(arrived, sum(part.size_bytes for part in wanted))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # renamed in between
        return 0


def _why(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    telling = ("Server access", "UnknownHost", "not found", "download failed", "FAILED", "SocketTimeout", "Exception")
    for line in lines:
        if any(word in line for word in telling):
            return line.strip(": ")
    return lines[-1] if lines else "Ivy printed no message"


def _forget(ivy: Path, wrong: Sequence[Part]) -> None:
    """Throw damaged files out of Ivy's cache, so that the next attempt downloads them."""
    names = {part.name for part in wrong}
    for folder, _, entries in os.walk(ivy / "cache"):
        for name in names.intersection(entries):
            (Path(folder) / name).unlink(missing_ok=True)


def _tell(report: Report | None, step: str, done: int, total: int) -> None:
    if report is not None:
        report(Progress(step, done, total))


@contextmanager
def _alone(folder: Path) -> Iterator[int]:
    """Hold the folder's lock; it is released by the system when the holder dies."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle.fileno()


def _unzip(archive: Path, target: Path) -> None:
    """Unpack, keeping the executable bits that ZipFile.extractall drops."""
    with ZipFile(archive) as unpacked:
        for entry in unpacked.infolist():
            path = Path(unpacked.extract(entry, target))
            mode = entry.external_attr >> 16
            if mode:
                path.chmod(mode & 0o777 | 0o600)


def checksums(cache: Path | None = None) -> list[str]:
    """Lines for stack/checksums.txt, from what Ivy brings now; for those who raise a version."""
    root = cache or cache_folder()
    java: Java = find_java()
    with tempfile.TemporaryDirectory() as scratch, as_file(files(__package__).joinpath("ivy.xml")) as xml:
        command = [str(java.executable), *_ivy_options(root), "-jar", str(ivy_jar())]
        subprocess.run(
            [*command, *_ivy_arguments(xml, (*GROUPS, *ON_DEMAND), Path(scratch))], check=True, stdout=sys.stderr
        )
        paths = sorted(path for path in Path(scratch).rglob("*") if path.is_file())
        return [f"{file_digest(p)} {p.stat().st_size} {p.relative_to(scratch).as_posix()}" for p in paths]


def main(arguments: Sequence[str]) -> int:
    """`python -m metajournal.stack.jars [checksums]`: install everything, or print the checksum file."""
    if list(arguments) == ["checksums"]:
        about = "# sha256, size in bytes, folder/file of everything that stack/ivy.xml brings. Made by: "
        sys.stdout.write("\n".join([about + "python -m metajournal.stack.jars checksums", *checksums()]) + "\n")
        return 0
    with shown() as report:
        sys.stdout.write(f"{ensure_all(report=report).root}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
