"""An archived installation: what its topics, lake and index hold, as a few compressed files in one folder.

about.json        prefix, version, rules' digest, runs of the stream, digest of each table, index
topics.json.xz    each topic's configuration and records, with their offsets and timestamps
index.json.xz     the index's mapping and settings, and its documents as the indexer sent them
answers.json.xz   questions of a user, and what was answered
lake.tar.xz       the lake's folder
"""

from __future__ import annotations

import base64
import json
import lzma
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from metajournal.schemas.settings import Settings

HERE = Path(__file__).parent


class Record(NamedTuple):
    """A committed record as Kafka holds it."""

    offset: int
    time_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Partition(NamedTuple):
    """A partition's committed records, and its end offset; offsets without a record were taken by transactions."""

    records: tuple[Record, ...]
    end: int


class Topic(NamedTuple):
    """A topic: what its configuration sets, and its partitions."""

    name: str
    config: Mapping[str, str]
    partitions: tuple[Partition, ...]


class Index(NamedTuple):
    """A search index.

    Attributes:
        name: the concrete index's.
        aliases, settings, mappings: as Elasticsearch tells them, without what is its own.
        documents: `_id`, version and document of each entity as they were sent, sorted.
        positions: the document that says what the index shows.
    """

    name: str
    aliases: Mapping[str, Any]
    settings: Mapping[str, Any]
    mappings: Mapping[str, Any]
    documents: Sequence[tuple[str, int, Any]]
    positions: Any


@dataclass(frozen=True)
class About:
    """What an archive says of itself.

    Attributes:
        prefix: of its topics; its index has the same name.
        version: of metajournal, that made it.
        rules: the rules' digest, of that version.
        runs: settings of section `stream` of each start of the stream, in their order.
        digests: of each table, below the journal table's marks; empty where the stream was killed in a batch.
    """

    prefix: str
    version: str
    rules: str
    runs: Sequence[Mapping[str, Any]]
    digests: Mapping[str, str]


@dataclass(frozen=True)
class Archive:
    """One folder, read piece by piece."""

    folder: Path

    @property
    def about(self) -> About:
        return About(**json.loads((self.folder / "about.json").read_text("utf-8")))

    def topics(self) -> list[Topic]:
        """Every topic of the installation."""
        return [_topic(one) for one in _read(self.folder / "topics.json.xz")]

    def index(self) -> Index:
        return Index(**_read(self.folder / "index.json.xz"))

    def answers(self) -> Any:
        return _read(self.folder / "answers.json.xz")

    def unpack_lake(self, folder: Path) -> None:
        """Put the lake's folder in place."""
        with tarfile.open(self.folder / "lake.tar.xz") as packed:
            packed.extractall(folder, filter="data")

    def write(self, about: About, topics: Sequence[Topic], index: Index | None, answers: Any, lake: Path) -> None:
        """Write all files; parts that are None are left out."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "about.json").write_text(json.dumps(about.__dict__, indent=2) + "\n", "utf-8")
        _write(self.folder / "topics.json.xz", [_topic_json(one) for one in topics])
        if index is not None:
            _write(self.folder / "index.json.xz", index._asdict())
        if answers is not None:
            _write(self.folder / "answers.json.xz", answers)
        with tarfile.open(self.folder / "lake.tar.xz", "w:xz", preset=9) as packed:
            packed.add(lake, ".", filter=_without_owner)

    @property
    def bytes(self) -> int:
        return sum(one.stat().st_size for one in self.folder.iterdir())


def settings_for(archive: Archive, settings: Settings) -> Settings:
    """Settings of a test with the names that an archived installation has."""
    prefix = archive.about.prefix
    return replace(
        settings,
        journal=replace(settings.journal, prefix=prefix),
        elasticsearch=replace(settings.elasticsearch, index=prefix),
    )


def _without_owner(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if info.name.endswith(".lock"):
        return None
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def _read(path: Path) -> Any:
    return json.loads(lzma.decompress(path.read_bytes()))


def _write(path: Path, value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def _topic_json(topic: Topic) -> dict[str, Any]:
    partitions = [{"end": end, "records": [_record_json(one) for one in records]} for records, end in topic.partitions]
    return {"name": topic.name, "config": topic.config, "partitions": partitions}


def _topic(said: Any) -> Topic:
    partitions = (
        Partition(tuple(_record(one) for one in partition["records"]), partition["end"])
        for partition in said["partitions"]
    )
    return Topic(said["name"], said["config"], tuple(partitions))


def _record_json(record: Record) -> list[Any]:
    headers = [[name, _text(value)] for name, value in record.headers]
    return [record.offset, record.time_ms, _text(record.key), _text(record.value), headers]


def _record(said: Any) -> Record:
    offset, time_ms, key, value, headers = said
    return Record(offset, time_ms, _bytes(key), _bytes(value), tuple((name, _bytes(one)) for name, one in headers))


def _text(value: bytes | None) -> str | None:
    """Bytes as text: as they are where they are UTF-8, which compresses well; else as base64."""
    if value is None:
        return None
    try:
        return f"u{value.decode()}"
    except UnicodeDecodeError:
        return f"b{base64.b64encode(value).decode()}"


def _bytes(text: str | None) -> bytes | None:
    if text is None:
        return None
    decode: Callable[[str], bytes] = str.encode if text[0] == "u" else base64.b64decode
    return decode(text[1:])
