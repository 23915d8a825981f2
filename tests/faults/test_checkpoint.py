"""The checkpoint is disposable: deleted or damaged under the running stream, it costs a fresh one and nothing else."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from metajournal.producers.topics import ensure_topics
from metajournal.schemas.errors import UnavailableError
from metajournal.schemas.settings import Settings
from metajournal.streaming.spark.session import planned_ends
from tests.faults.scale import LONG, seeded, times
from tests.index import shows_the_lake
from tests.processes import Running, running_indexer, running_stream
from tests.streaming.test_stream_kills import WAYS, assert_all_equal, generated, with_stream
from tests.topics import folded_to_the_end, write
from tests.wait import eventually

ENDS = '{"metajournal.journal.catalog":{"0":12,"1":7}}'
OFFSETS = f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{{"a.b":"2"}}}}\n{ENDS}'


def files_of(checkpoint: Path) -> list[Path]:
    """Spark's files of its offsets and commits, and what it keeps beside them."""
    return sorted(path for path in checkpoint.rglob("*") if path.is_file())


def delete_all(checkpoint: Path, _chance: random.Random) -> None:
    shutil.rmtree(checkpoint, ignore_errors=True)


def delete_logs(checkpoint: Path, _chance: random.Random) -> None:
    for name in ("offsets", "commits"):
        shutil.rmtree(checkpoint / name, ignore_errors=True)


def each(harm: Callable[[bytes, random.Random], bytes]) -> Callable[[Path, random.Random], None]:
    """What does the same to the content of every file."""

    def harmed(checkpoint: Path, chance: random.Random) -> None:
        for path in files_of(checkpoint):
            try:
                data = path.read_bytes()
                path.write_bytes(harm(data, chance))
            except FileNotFoundError:  # Spark has removed it meanwhile
                continue

    return harmed


HARM = {
    "deleted": delete_all,
    "without its logs": delete_logs,
    "truncated": each(lambda data, chance: data[: chance.randrange(len(data) + 1)]),
    "garbled": each(lambda data, chance: chance.randbytes(len(data))),
    "emptied": each(lambda _data, _chance: b""),
}


def checkpoint_of(folder: Path) -> Path | None:
    """The running query's checkpoint, once it has planned a batch."""
    found = [one for one in folder.glob("metajournal-checkpoint-*") if list(one.glob("offsets/[0-9]*"))]
    return found[0] if found else None


def harmed_once(folder: Path, harm: Callable[[Path, random.Random], None], chance: random.Random) -> None:
    harm(eventually(lambda: checkpoint_of(folder), 60, "a checkpoint"), chance)


@pytest.mark.services
@pytest.mark.long
@pytest.mark.parametrize("way", WAYS if LONG else ["short"])
def test_a_stream_whose_checkpoint_is_deleted_or_damaged_goes_on_without_loss_or_repetition(
    settings: Settings, tmp_path: Path, way: str
) -> None:
    chance = seeded(f"checkpoint, {way} way")
    folder = tmp_path / "checkpoints"
    asked = with_stream(settings, checkpoint=str(folder), max_events_per_batch=17, **WAYS[way])
    ensure_topics(settings)
    kinds = chance.sample(sorted(HARM), times(2, len(HARM)))
    records = generated(60 * (len(kinds) + 1))
    with running_stream(asked, tmp_path / "stream.log") as process:
        for number, kind in enumerate(kinds):
            write(settings, records[60 * number : 60 * (number + 1)])
            harmed_once(folder, HARM[kind], chance)
        write(settings, records[60 * len(kinds) :])
        goes_on(settings, process)
        assert process.stop() == 0, process.tail()
    with running_indexer(settings, tmp_path / "indexer.log") as indexer:
        eventually(lambda: shows_the_lake(settings), 60, f"the index at the lake's marks ({indexer.log})")
    assert_all_equal(settings)
    print(process.log.read_text(errors="replace").count("checkpoint"), "times the stream spoke of it")  # noqa: T201


def goes_on(settings: Settings, process: Running) -> None:
    """Everything is folded by this very process."""
    eventually(lambda: folded_to_the_end(settings), 150, f"the fold to the journal's end ({process.log})")
    assert process.process.poll() is None, process.tail()


def planned(folder: Path, content: str) -> dict[tuple[str, int], int]:
    (folder / "offsets").mkdir(exist_ok=True)
    (folder / "offsets" / "3").write_text(content)
    return planned_ends(str(folder), 3)


def test_planned_ends_are_what_spark_has_written(tmp_path: Path) -> None:
    assert planned(tmp_path, OFFSETS) == {
        ("metajournal.journal.catalog", number): end for number, end in ((0, 12), (1, 7))
    }


def test_planned_ends_are_taken_from_no_file_that_is_cut_or_changed(tmp_path: Path) -> None:
    for end in range(len(OFFSETS)):
        with pytest.raises(UnavailableError, match="deleted or damaged"):
            planned(tmp_path, OFFSETS[:end])
    for other in ("", "\n\n", "v2" + OFFSETS[2:], OFFSETS + "\n{}", OFFSETS.replace("12", "1e2"), "v1\n{}\n[]"):
        with pytest.raises(UnavailableError, match="deleted or damaged"):
            planned(tmp_path, other)
    shutil.rmtree(tmp_path / "offsets")
    with pytest.raises(UnavailableError, match="deleted or damaged") as caught:
        planned_ends(str(tmp_path), 3)
    assert caught.value.code == "checkpoint-damaged"
