"""What a lake does beside delta-rs's commits, in a real object store: objects, pointer, generations, leases."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from metajournal.lake.storage.generations import Generations, Pointer
from metajournal.lake.storage.leases import Lease, Pace
from metajournal.lake.storage.locks import only_one
from metajournal.lake.storage.store import delete_below, delete_object, read_object, replace_object, store_files
from metajournal.lake.table import Reached, Table
from metajournal.lake.tables import Lake
from metajournal.schemas.errors import LakeWriteError, StreamError, UnavailableError
from tests.store.proxy import Trouble, troubled
from tests.wait import eventually

pytestmark = pytest.mark.services
QUICK = Pace(beat_s=0.2, watch_s=1.5)

HOLDER = """
import json, sys, time
from metajournal.lake.storage.leases import Lease, Pace
path, options = json.load(sys.stdin)
lease = Lease(path, "stream", options, pace=Pace(0.2, 1.5))
print(lease.take(), flush=True)
time.sleep(600)
"""


def test_an_object_is_replaced_as_a_whole_and_a_missing_one_is_told_from_a_store_that_is_away(
    place: str, options: Mapping[str, str]
) -> None:
    files = store_files(place, options)
    assert read_object(files, "a/b.json") is None
    replace_object(files, "a/b.json", b"first")
    replace_object(files, "a/b.json", b"")
    assert read_object(files, "a/b.json") == b""
    replace_object(files, "a/c", b"x" * 12_000_000)  # in several parts
    assert read_object(files, "a/c") == b"x" * 12_000_000
    delete_object(files, "a/none")
    delete_below(files, "a")
    assert read_object(files, "a/b.json") is None
    away = store_files(place, {**options, "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "max_retries": "1"})
    with pytest.raises(OSError, match="Generic S3 error"):
        read_object(away, "a/b.json")


def test_a_pointer_and_generations_stand_in_the_store(place: str, options: Mapping[str, str]) -> None:
    generations = Generations(place, options)
    assert generations.read() == Pointer()
    generations.begin(1, ["entities"])
    assert generations.begun(1) == ["entities"]
    assert not generations.offered(1)
    generations.offer(1)
    assert generations.offered(1)
    before = generations.version()
    generations.swap(Pointer(1, {"entities": "gen-1/entities"}))
    assert generations.version() != before
    assert generations.read() == Pointer(1, {"entities": "gen-1/entities"})
    assert generations.swapped_s_ago() < 60
    generations.remove(1)
    assert generations.begun(1) is None
    with generations.aside() as folder:
        replace_object(store_files(place, options), f"{folder}/rows", b"some")
    assert read_object(store_files(place, options), f"{folder}/rows") is None


def test_one_process_has_a_lease_until_it_gives_it_back(place: str, options: Mapping[str, str]) -> None:
    with only_one(place, "stream", hint="Stop it.", storage_options=options):
        with only_one(place, "rebuild", hint="", storage_options=options):
            pass
        with pytest.raises(StreamError) as refused, only_one(place, "stream", hint="Stop it.", storage_options=options):
            pass
        assert (refused.value.code, refused.value.hint) == ("stream-runs", "Stop it.")
    with only_one(place, "stream", hint="", storage_options=options):
        pass


def test_of_many_that_want_a_lease_at_once_one_gets_it(place: str, options: Mapping[str, str]) -> None:
    leases = [Lease(place, "stream", options, pace=QUICK) for _ in range(6)]
    with ThreadPoolExecutor(len(leases)) as pool:
        taken = list(pool.map(Lease.take, leases))
    assert sorted(taken) == [False] * 5 + [True]
    for lease in leases:
        lease.release()


def test_a_lease_of_a_killed_process_ends_by_itself(place: str, options: Mapping[str, str]) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdin.write(json.dumps([place, dict(options)]).encode())
        holder.stdin.close()
        assert holder.stdout.readline() == b"True\n"
        late = Lease(place, "stream", options, pace=QUICK)
        assert not late.take()
        holder.kill()
    assert late.take()
    late.release()


def test_a_holder_that_could_not_show_itself_for_too_long_learns_that_it_was_followed(
    place: str, options: Mapping[str, str]
) -> None:
    lost = threading.Event()
    trouble = Trouble()
    with troubled(options["AWS_ENDPOINT_URL"], trouble) as url:
        behind = {**options, "AWS_ENDPOINT_URL": url, "max_retries": "0"}
        first = Lease(place, "stream", behind, pace=QUICK, on_lost=lost.set)
        assert first.take()
        trouble.set(refused=1.0)
        second = Lease(place, "stream", options, pace=QUICK)
        eventually(second.take, 30, "the lease of one that is cut off")
        trouble.set()
        assert lost.wait(30)
        first.release()
    third = Lease(place, "stream", options, pace=QUICK)
    assert not third.take(), "who lost it does not give back what is another's"
    second.release()


def test_a_commit_whose_answer_was_lost_is_known_again_and_a_second_writers_is_refused(
    place: str, options: Mapping[str, str]
) -> None:
    trouble, key = Trouble(), ("topic", 0)
    with troubled(options["AWS_ENDPOINT_URL"], trouble) as url:
        table = Table("entities", f"{place}/entities", {**options, "AWS_ENDPOINT_URL": url})
        table.create()
        other = Table("entities", f"{place}/entities", options)
        table.append(table.schema.empty_table(), Reached({key: 1}, {}, {}))
        trouble.lose_commits(1)
        table.append(table.schema.empty_table(), Reached({key: 5}, {}, {}))
        trouble.lose_commits(1)
        table.list_tables(["runs"])
        assert trouble.harmed == 2
        assert sorted(table.listed() or ()) == ["runs"]
        other.refresh()
        assert (table.mark(key), other.mark(key), other.delta.version()) == (5, 5, 3)
        assert table.delta.version() == 3
        table.append(table.schema.empty_table(), Reached({key: 6}, {}, {}))
        with pytest.raises(StreamError) as refused:
            other.append(other.schema.empty_table(), Reached({key: 7}, {}, {}))
        assert refused.value.code == "second-writer"


def test_a_store_that_is_away_is_no_lake_that_is_not_there(place: str, options: Mapping[str, str]) -> None:
    away = {**options, "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "max_retries": "1"}
    with pytest.raises(UnavailableError) as refused:
        Lake(place, away).journal.exists()
    assert refused.value.code == "lake-unavailable"
    with pytest.raises(LakeWriteError), only_one(place, "stream", hint="", storage_options=away):
        pass
