"""Settings as values: every key, its default and its unit.

Frozen and pure; reading arguments, environment and `metajournal.toml` is the root module `config`'s job, and nothing
below it looks anywhere but here. What may hold a secret stays out of their `repr`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .topics import TopicNames


def _kafka_defaults() -> Mapping[str, str]:
    return {"bootstrap.servers": "127.0.0.1:9092"}


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """Names: which journal, as whom."""

    prefix: str = "metajournal"
    """First part of every topic name."""
    tenant: str = "default"
    """`[a-z0-9][a-z0-9_-]{0,63}`."""
    actor: str | None = None
    """Who is making changes, unless a call says otherwise; None: the operating system's user; empty: nobody."""
    partitions: int = 4
    """Partitions of a journal topic when it is created; never changed afterwards."""
    custom_kinds: tuple[str, ...] = ()
    """Further kinds of entities that may be emitted, besides those that domains declare."""
    changes_topic: str | None = None
    """Name of the catalog's USER change topic; `<prefix>.changes.catalog` if None."""

    @property
    def topics(self) -> TopicNames:
        return TopicNames(self.prefix, self.changes_topic)


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """Where the Delta tables are."""

    path: str = "metajournal-lake"
    """Folder or object store URL; in a settings file, a relative path starts at the file's folder."""
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options of the object store, as delta-rs names them."""
    vacuum_retention_h: int = 1
    """Hours to keep files that the tables no longer need; must exceed any batch and any reader of one version."""


@dataclass(frozen=True, slots=True)
class ElasticsearchSettings:
    """Where the index is."""

    url: str = field(default="http://127.0.0.1:9200", repr=False)
    """URL of Elasticsearch."""
    ca: str | None = None
    """File of the certificate authority."""
    api_key: str | None = field(default=None, repr=False)
    """Secret; always shown masked."""
    index: str = "metajournal"
    """Alias that searches use."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The emitting and reading client."""

    queue_events: int = 100_000
    """Maximum number of events waiting for their acknowledgement; beyond it emit raises QueueFullError."""
    delivery_timeout_s: float = 30.0
    """Seconds until an event without acknowledgement has an unknown outcome."""
    outcome_timeout_s: float = 10.0
    """Seconds that `Receipt.outcome()` waits by default."""
    linger_ms: float = 0.0
    """Milliseconds that the producer waits for more events before sending."""
    kept_bytes: int = 256 * 1024 * 1024
    """Bytes that questions about what commits contain may keep of the lake in memory."""
    short_cursors: bool = True
    """Give cursors of pages short names, which only this machine knows; otherwise any machine takes them."""
    metrics_port: int | None = None
    """Port on 127.0.0.1 that shows the client's metrics to Prometheus; none if None. One process can use a port."""


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """The fold."""

    max_events_per_batch: int = 500_000
    """Maximum number of events in a batch."""
    wide_events: int = 20_000
    """Batches of at least this many events are folded by Spark tasks, smaller ones in the driver."""
    master: str = "local[4]"
    """Spark's master: `local[n]`, or the URL of a cluster whose workers reach Kafka and the lake."""
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further Spark options by their full names (`spark.executor.memory`); they override the project's own."""
    min_trigger_interval_ms: int = 0
    """Milliseconds between the starts of two batches; 0: as fast as events come."""
    checkpoint: str | None = None
    """Folder of Spark's checkpoint, disposable; a temporary one if None."""
    cache_rows: int = 200_000
    """Current rows that the driver keeps in memory."""
    idle_outcome_interval_s: float = 60.0
    """Seconds between two outcome records of an idle partition."""
    crash_at: str | None = None
    """`<point>:<n>`: the process kills itself at the n-th passing of a named point; for crash tests only."""
    metrics_file: str | None = None
    """File for JSON lines, one for each batch; none if None."""
    metrics_port: int | None = None
    """Port on 127.0.0.1 that shows the stream's metrics to Prometheus; none if None."""
    derived: bool = True
    """Fill derived tables, in a separate process beside the fold; otherwise they stay as they are."""


@dataclass(frozen=True, slots=True)
class IndexerSettings:
    """From the state topics to Elasticsearch."""

    refresh_interval_ms: int = 200
    """Minimum milliseconds between two refreshes."""
    bulk_documents: int = 1000
    """Maximum number of documents in one request to Elasticsearch."""
    bulk_bytes: int = 8 * 1024 * 1024
    """Maximum size of one request to Elasticsearch, in bytes."""
    metrics_port: int | None = None
    """Port on 127.0.0.1 that shows the indexer's metrics to Prometheus; none if None."""


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """HTTP: what `metajournal serve` answers."""

    host: str = "127.0.0.1"
    """Address to listen on. Beyond this machine it needs a certificate, or `behind_proxy`."""
    port: int = 8080
    """Port to listen on; 0: any free one."""
    reuse_port: bool = False
    """Let several processes listen on one port; the kernel divides the connections."""
    operator: str = "127.0.0.1:8081"
    """Address and port of `/healthz`, `/readyz` and `/metrics`; empty: none."""
    certificate: str | None = None
    """File of the TLS certificate and those above it, PEM."""
    private_key: str | None = None
    """File of the certificate's key, PEM."""
    behind_proxy: bool = False
    """A proxy in front of this server does TLS; without that, or a certificate, it serves this machine alone."""
    loopback_only: bool = False
    """Only this machine reaches the port, whatever `host` is: a container's port that is published on 127.0.0.1."""
    hosts: tuple[str, ...] = ()
    """Names of this server, without port; if none, the machine's own alone (on this machine), or any."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies whose X-Forwarded-For and `user_header` are believed."""
    user_header: str = ""
    """Header in which a trusted proxy names who is logged in, a principal; empty: none does."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may call the API with a key."""
    wait_s: float = 10.0
    """Seconds that a request waits for a verdict, or for what its answer must include."""
    access_stale_s: float = 30.0
    """Seconds without news of who may do what after which nobody is answered."""
    drain_s: float = 5.0
    """Seconds between the signal to end, when `/readyz` says so, and the end of taking connections."""
    requests_per_s: float = 200.0
    """Requests a second that one key may send in the long run; 0: any number."""
    burst: int = 1000
    """Requests that one key may send at once."""
    kept_bytes: int = 32 * 1024 * 1024
    """In the place of client.kept_bytes: a process that serves has less memory for it."""

    audit: str = "changes"
    """What `<prefix>.audit` records: "changes" (refusals, logins, changes of rights) or "reads": every read too, which
    is then answered once it is recorded, and refused where it cannot be."""

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return self.loopback_only or self.host in ("localhost", "::1") or self.host.startswith("127.")

    @property
    def tells_all(self) -> bool:
        """Whether all who are answered are on this machine, so that answers may name its servers and folders."""
        return self.is_local and not self.behind_proxy


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Logs of the stream, of the indexer, and of commands with `-v`; all go to standard error."""

    format: str = "auto"
    """text, json (one object per line), or auto: text on a terminal, json elsewhere."""
    level: str = "info"
    """The lowest level that is shown: debug, info, warning or error."""


@dataclass(frozen=True, slots=True)
class StackSettings:
    """The services on one machine."""

    home: str | None = None
    """Folder of their data and logs; if None, METAJOURNAL_HOME or `~/.metajournal`."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, one section for each component."""

    journal: JournalSettings = field(default_factory=JournalSettings)
    kafka: Mapping[str, str] = field(default_factory=_kafka_defaults, repr=False)
    """librdkafka's dotted keys, passed through to every Kafka client."""
    lake: LakeSettings = field(default_factory=LakeSettings)
    elasticsearch: ElasticsearchSettings = field(default_factory=ElasticsearchSettings)
    client: ClientSettings = field(default_factory=ClientSettings)
    stream: StreamSettings = field(default_factory=StreamSettings)
    indexer: IndexerSettings = field(default_factory=IndexerSettings)
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    log: LogSettings = field(default_factory=LogSettings)
    stack: StackSettings = field(default_factory=StackSettings)
