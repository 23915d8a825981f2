"""Real lakehouses for tests: files of Parquet and CSV, Delta and Iceberg tables, on disk and in an S3 server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.request import Request, urlopen

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from metajournal.stack.ports import free_ports
from tests.wait import eventually

ORDERS: Final = pa.table({
    "id": pa.array([1, 2, 3]), "amount": pa.array([1.5, 2.5, 3.5]),
    "address": pa.array([{"city": "Ulm", "zips": [{"code": "1"}]}] * 3),
})  # fmt: skip
CUSTOMERS: Final = "id;name;since\n1;Ann;2026-01-31\n2;Bob;2026-02-01\n"


@dataclass(frozen=True)
class Place:
    """A place for tables: its address, its file system, and the options that open it."""

    url: str
    store: fs.FileSystem
    root: str
    storage: tuple[str, ...] = ()

    @property
    def storage_options(self) -> dict[str, str]:
        return {key: value for key, _, value in (text.partition("=") for text in self.storage)}

    def write(self, path: str, text: str | bytes) -> None:
        self._folder(path)
        with self.store.open_output_stream(f"{self.root}/{path}", compression=None) as stream:
            stream.write(text.encode() if isinstance(text, str) else text)

    def write_parquet(self, path: str, table: pa.Table = ORDERS) -> None:
        self._folder(path)
        with self.store.open_output_stream(f"{self.root}/{path}") as stream:
            pq.write_table(table, stream)

    def write_delta(self, path: str, table: pa.Table = ORDERS, **how: Any) -> None:
        from deltalake import write_deltalake

        write_deltalake(f"{self.url}/{path}", table, storage_options=self.storage_options, **how)

    def delete(self, path: str) -> None:
        info = self.store.get_file_info(f"{self.root}/{path}")
        (self.store.delete_dir if info.type == fs.FileType.Directory else self.store.delete_file)(info.path)

    def _folder(self, path: str) -> None:
        self.store.create_dir(f"{self.root}/{path}".rpartition("/")[0], recursive=True)


def on_disk(folder: Path) -> Place:
    return Place(str(folder), fs.LocalFileSystem(), str(folder))


def write_shop(place: Place) -> None:
    """A small shop in each format, with what engines leave beside the data."""
    place.write_parquet("orders/year=2025/part-0.parquet")
    place.write_parquet("orders/year=2026/part-0.parquet")
    place.write("orders/_SUCCESS", "")
    place.write("orders/year=2026/.part-0.parquet.crc", "crc")
    place.write("orders/_temporary/0/part-9.parquet", "no data yet")
    place.write("raw/customers.csv", CUSTOMERS)
    place.write("raw/countries.csv", "code,name\nDE,Germany\n")
    place.write_delta("sales", partition_by=["id"], description="What was sold", name="sales")


class S3(NamedTuple):
    """An S3 server: its URL, options as delta-rs takes them, and its process."""

    url: str
    options: Mapping[str, str]
    process: subprocess.Popen[bytes]

    def bucket(self, name: str) -> Place:
        """A bucket of its own."""
        return in_bucket(self.url, self.options, name)

    def admit(self, requests: float) -> None:
        """From now on answer so many requests of anybody; it knows no user, so further ones are refused."""
        said = f"{requests}".encode()
        with urlopen(Request(f"{self.url}/moto-api/reset-auth", said, {"Content-Type": "text/plain"})):
            pass


@contextmanager
def s3_server() -> Iterator[S3]:
    """An S3 server in a process of its own, which ends with the block."""
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            eventually(lambda: _answers(url), 60, "an answer of the S3 server")
            options = {
                "aws_access_key_id": "reader", "aws_secret_access_key": "geheim", "aws_region": "us-east-1",
                "aws_endpoint_url": url,
            }  # fmt: skip
            yield S3(url, options, server)
        finally:
            server.kill()


def in_bucket(url: str, options: Mapping[str, str], bucket: str) -> Place:
    """A bucket of its own of a server."""
    store = fs.S3FileSystem(
        access_key=options["aws_access_key_id"], secret_key=options["aws_secret_access_key"],
        region=options["aws_region"], endpoint_override=url, allow_bucket_creation=True,
    )  # fmt: skip
    store.create_dir(bucket)
    storage = tuple(f"{key}={value}" for key, value in {**options, "aws_allow_http": "true"}.items())
    return Place(f"s3://{bucket}", store, bucket, storage)


def _answers(url: str) -> bool:
    try:
        with urlopen(f"{url}/moto-api/", timeout=5):
            return True
    except OSError:
        return False
