"""All tables. Integer keys inside, public ids and slugs outside; every `_at` column is UTC.

A JSON column is replaced, never edited in place: SQLAlchemy does not see edits inside it.
"""

import secrets
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, CheckConstraint, Column, Index, LargeBinary, UniqueConstraint, text
from sqlmodel import Field, Relationship, SQLModel

from app.db.json_columns import MessageText

SQLModel.model_config["defer_build"] = True  # a table validates nothing: its validators would take 8 ms at each start
SQLModel.metadata.naming_convention = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

RUN_STATES = ("queued", "running", "done", "failed", "cancelled", "interrupted")
ENDED_STATES = frozenset(RUN_STATES) - {"queued", "running"}


def now() -> datetime:
    """The current moment in UTC."""
    return datetime.now(UTC)


def new_public_id() -> str:
    """Ten random characters without look-alikes: 48 bits, so that two runs of one database never share an id."""
    alphabet = "23456789abcdefghjkmnpqrstuvwxyz"
    return "".join(secrets.choice(alphabet) for _ in range(10))


def _json(default: type) -> Any:
    return Field(default_factory=default, sa_column=Column(JSON, nullable=False))


class Machine(SQLModel, table=True):
    """A computer that servers run on, with what is known of its memory and accelerators."""

    id: int | None = Field(default=None, primary_key=True)
    slug: str = Field(unique=True, max_length=80)
    name: str = Field(max_length=120)
    kind: str = Field(default="", max_length=40)
    accelerators: list[dict[str, Any]] = _json(list)
    """Each as hardware.profile.Accelerator: name, count, memory_bytes, bandwidth_bytes_per_s, source, ..."""
    ram_bytes: int | None = Field(default=None, sa_type=BigInteger)
    ram_kind: str | None = Field(default=None, max_length=20)
    ram_data_rate_mt_per_s: float | None = None
    ram_bus_bits: int | None = None
    ram_bandwidth_bytes_per_s: float | None = None
    """The stated bandwidth; a measured one is stored in `bandwidth_probe` and outranks it (db.machines.devices)."""
    ram_bandwidth_source: str | None = Field(default=None, max_length=20)
    """The source: sensor, catalogue or typed."""
    os: str = Field(default="", max_length=120)
    cpu: str = Field(default="", max_length=120)
    physical_cores: int | None = None
    cpu_flops_per_s: float | None = None
    """The typed peak of all cores by the fastest usable path: no tool reports it."""
    llc_bytes: int | None = Field(default=None, sa_type=BigInteger)
    """The size of all last-level caches together."""
    hostname: str | None = Field(default=None, max_length=255)
    """The host name of a machine that Roofmark runs on."""
    notes: str = ""
    created_at: datetime = Field(default_factory=now)
    archived_at: datetime | None = None


class BandwidthProbe(SQLModel, table=True):
    """One measurement of a machine's memory bandwidth; while it runs, the channel from its process to the pages."""

    __tablename__ = "bandwidth_probe"
    __table_args__ = (
        CheckConstraint("status IN ('running','done','failed')", name="status"),
        # as for runs: one at a time, whichever process starts a second one
        Index(
            "uq_bandwidth_probe_machine_running",
            "machine_id",
            unique=True,
            sqlite_where=text("status = 'running'"),
            postgresql_where=text("status = 'running'"),
        ),
        Index("ix_bandwidth_probe_machine_id_started_at", "machine_id", "started_at"),
    )

    id: int | None = Field(default=None, primary_key=True)
    machine_id: int = Field(foreign_key="machine.id", ondelete="CASCADE")
    status: str = Field(default="running", max_length=12)
    phase: str = Field(default="", sa_type=MessageText)
    best_bytes_per_s: float | None = None
    median_bytes_per_s: float | None = None
    threads: int | None = None
    record: dict[str, Any] = _json(dict)
    """How it was measured: samples, buffer_bytes, sweep, plateau_ratio, busy_share, remarks."""
    started_at: datetime = Field(default_factory=now)
    finished_at: datetime | None = None
    error: str | None = Field(default=None, sa_type=MessageText)


class Device(SQLModel, table=True):
    """A device that a person added to the catalogue, or corrected; see hardware.catalogue.Device."""

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(unique=True, max_length=120)
    kind: str = Field(default="gpu", max_length=10)
    memory_bytes: int | None = Field(default=None, sa_type=BigInteger)
    bandwidth_bytes_per_s: float
    compute_flops_per_s: float | None = None
    fastest_flops_per_s: float | None = None
    source: str = Field(default="", max_length=300)
    created_at: datetime = Field(default_factory=now)


class Server(SQLModel, table=True):
    """An LLM server at an address, and what is known of it."""

    id: int | None = Field(default=None, primary_key=True)
    machine_id: int = Field(foreign_key="machine.id", index=True)
    slug: str = Field(unique=True, max_length=80)
    name: str = Field(max_length=120)
    engine: str = Field(max_length=40)
    base_url: str = Field(max_length=500)
    api_key_encrypted: str | None = None
    model: str | None = Field(default=None, max_length=300)
    """The model of the server to measure; None: its first one."""
    capabilities: dict[str, Any] = _json(dict)
    """What probing and measuring revealed about this server's protocol."""
    facts: dict[str, Any] = _json(dict)
    """The last probe: engine_version, models, context_tokens, settings; and `process`, what the process behind its
    address on this machine says (measure.server_process)."""
    settings: dict[str, Any] = _json(dict)
    """What a probe cannot detect and a person stated: cards, split_mode, KV types, ..."""
    model_settings: dict[str, dict[str, Any]] = _json(dict)
    """The same of single models, by their ids, where the server has several."""
    log_path: str | None = Field(default=None, max_length=1000)
    """The path of its log on this machine, whose new lines are read during a run; no part of any configuration."""
    labels: list[str] = _json(list)
    created_at: datetime = Field(default_factory=now)
    probed_at: datetime | None = None
    archived_at: datetime | None = None

    machine: Machine = Relationship()


FULL_GEOMETRY = "full"
"""A key of `Model.geometry`: all of ceiling.geometry.Geometry, when the server or its file has it."""


class Model(SQLModel, table=True):
    """A model in one quantization, as a server reports it; several rows may be about the same model."""

    __table_args__ = (UniqueConstraint("name", "quantization", "geometry_sha256"),)

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(max_length=300)
    quantization: str = Field(default="", max_length=60)
    geometry: dict[str, Any] = _json(dict)
    """parameters and size_bytes as the server reports them, and FULL_GEOMETRY."""
    geometry_sha256: str = Field(max_length=64)
    source: str = Field(default="", max_length=300)
    """The engine that reported it."""

    @property
    def title(self) -> str:
        """The name and quantization."""
        return f"{self.name} {self.quantization}".strip()


class StatedGeometry(SQLModel, table=True):
    """What a person stated of a model: it holds for all its runs, earlier and later, without a better source."""

    __tablename__ = "stated_geometry"
    __table_args__ = (UniqueConstraint("model_name", "quantization"),)

    id: int | None = Field(default=None, primary_key=True)
    model_name: str = Field(max_length=300)
    quantization: str = Field(default="", max_length=60)
    geometry: dict[str, Any] = _json(dict)
    """The fields of ceiling.geometry.Geometry."""
    form: dict[str, str] = _json(dict)
    """The typed values by the fields of web.model_form, so that they can be corrected."""
    stated_at: datetime = Field(default_factory=now)


class Config(SQLModel, table=True):
    """A frozen configuration. Rows are only inserted; what is known of the model may be added to (db/configs.py)."""

    __table_args__ = (UniqueConstraint("server_id", "fingerprint"),)

    id: int | None = Field(default=None, primary_key=True)
    server_id: int = Field(foreign_key="server.id")
    model_id: int = Field(foreign_key="model.id", index=True)
    engine: str = Field(max_length=40)
    engine_version: str | None = Field(default=None, max_length=120)
    settings: dict[str, Any] = _json(dict)
    labels: list[str] = _json(list)
    fingerprint: str = Field(max_length=64, index=True)
    note: str = ""
    """A person's remark; no part of what is frozen."""
    created_at: datetime = Field(default_factory=now)

    server: Server = Relationship()
    model: Model = Relationship()


class Suite(SQLModel, table=True):
    """A person's own suite; editing one adds a version. The built-in suites are in app/suites."""

    __table_args__ = (UniqueConstraint("key", "version"),)

    id: int | None = Field(default=None, primary_key=True)
    key: str = Field(max_length=60, index=True)
    version: int = 1
    title: str = Field(max_length=120)
    definition: dict[str, Any] = _json(dict)
    sha256: str = Field(max_length=64, unique=True)
    created_at: datetime = Field(default_factory=now)
    archived_at: datetime | None = None


class Run(SQLModel, table=True):
    """One execution of a suite against a server."""

    __table_args__ = (
        CheckConstraint("status IN ('queued','running','done','failed','cancelled','interrupted')", name="status"),
        CheckConstraint("source IN ('live','import')", name="source"),
        # one running run per machine, whichever process starts a second one
        Index(
            "uq_run_machine_running",
            "machine_id",
            unique=True,
            sqlite_where=text("status = 'running'"),
            postgresql_where=text("status = 'running'"),
        ),
        Index("ix_run_status_queued_at", "status", "queued_at"),
        Index("ix_run_config_id_started_at", "config_id", "started_at"),
        Index("ix_run_queued_at_id", "queued_at", "id"),
        # the columns that select which runs count and the newest of each configuration and suite
        Index("ix_run_status_series", "status", "config_id", "suite_key", "started_at", "id", "hidden_at"),
    )

    id: int | None = Field(default=None, primary_key=True)
    public_id: str = Field(default_factory=new_public_id, unique=True, max_length=16)
    machine_id: int = Field(foreign_key="machine.id")
    server_id: int = Field(foreign_key="server.id", index=True)
    config_id: int | None = Field(default=None, foreign_key="config.id")
    """Frozen when the run starts; a queued run has none yet."""
    suite_key: str = Field(max_length=60)
    suite_sha256: str = Field(max_length=64)
    plan: dict[str, Any] = _json(dict)
    """The request: points, repetitions, warm-ups, model."""
    source: str = Field(default="live", max_length=10)
    import_digest: str | None = Field(default=None, unique=True, max_length=64)
    status: str = Field(default="queued", max_length=12)
    note: str = ""
    labels: list[str] = _json(list)
    """A person's own words for this run; the labels of its configuration are frozen with it."""
    hardware: list[dict[str, Any]] = _json(list)
    """The devices of the machine as they were known when the run started; see db.machines.MachineDevice."""
    hidden_at: datetime | None = None
    """When it was hidden from histories and statistics."""
    hidden_reason: str = Field(default="", sa_type=MessageText)
    main_point_key: str = Field(default="", max_length=60)
    """The suite's first point, which lists and histories show."""
    samples_planned: int = 0
    samples_done: int = 0
    progress: dict[str, Any] = _json(dict)
    """phase (one sentence), last (the last sample's triple), estimated_end_at."""
    evidence: dict[str, Any] = _json(dict)
    """What was observed before and after: health, idleness, counters, points left out, warnings, the server's process
    and the question about its restart (db/restarts.py)."""
    queued_at: datetime = Field(default_factory=now)
    started_at: datetime | None = Field(default=None, index=True)
    finished_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    worker_pid: int | None = None
    worker_instance: str | None = Field(default=None, max_length=40)
    """The data folder whose lock file shows whether the worker lives; see measure/workers.py."""
    error: str | None = Field(default=None, sa_type=MessageText)
    metrics_digest: str | None = Field(default=None, max_length=64, index=True)
    """The formulas and flag rules that its measurements were derived with (`metrics.derivation_digest`); None:
    unknown."""

    machine: Machine = Relationship()
    server: Server = Relationship()
    config: Config | None = Relationship()
    """None while the run is queued, and when it ended before its configuration was known."""

    @property
    def model(self) -> Model | None:
        """The model of its configuration."""
        return self.config.model if self.config else None


class SampleRow(SQLModel, table=True):
    """One request of a run, with all of its token events."""

    __tablename__ = "sample"
    __table_args__ = (UniqueConstraint("run_id", "ordinal"),)

    id: int | None = Field(default=None, primary_key=True)
    run_id: int = Field(foreign_key="run.id", ondelete="CASCADE")
    ordinal: int
    point: dict[str, Any] = _json(dict)
    is_warmup: bool = False
    status: str = Field(max_length=12)
    started_at: datetime | None = None
    record: dict[str, Any] = _json(dict)
    """All fields of `samples.Sample` except events, flags and error."""
    events: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    """zlib-compressed JSON columns; see db/samples.py."""
    sensors: dict[str, Any] = _json(dict)
    flags: list[str] = _json(list)
    error: str | None = Field(default=None, sa_type=MessageText)


class Measurement(SQLModel, table=True):
    """One derived number of one point of a run; a null has a reason. It can always be computed again from the
    samples."""

    __table_args__ = (
        UniqueConstraint("run_id", "point_key", "metric", "source"),
        Index("ix_measurement_metric_run_id", "metric", "run_id"),
    )

    id: int | None = Field(default=None, primary_key=True)
    run_id: int = Field(foreign_key="run.id", ondelete="CASCADE")
    point_key: str = Field(max_length=60)
    """`prompt_tokens/output_tokens/concurrency/depth`."""
    metric: str = Field(max_length=60)
    source: str = Field(max_length=12)
    """The source: client, server, slope, sensor or import."""
    unit: str = Field(max_length=20)
    is_shown: bool = False
    """Whether this source is shown where there is room for one only."""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    standard_deviation: float | None = None
    left_out: dict[str, int] = _json(dict)
    """The number of samples left out, by flag or status."""
    sample_count: int = 0
    null_reason: str | None = Field(default=None, max_length=60)
    formula_version: int = 1


class Baseline(SQLModel, table=True):
    """The run that every later one of this machine, model (in any quantization) and suite is compared with."""

    __table_args__ = (UniqueConstraint("machine_id", "model_name", "suite_key"),)

    id: int | None = Field(default=None, primary_key=True)
    machine_id: int = Field(foreign_key="machine.id", ondelete="CASCADE")
    model_name: str = Field(max_length=300)
    suite_key: str = Field(max_length=60)
    run_id: int = Field(foreign_key="run.id", ondelete="CASCADE", index=True)
    created_at: datetime = Field(default_factory=now)


class Share(SQLModel, table=True):
    """What the holder of the link may read: a snapshot, which nothing changes later."""

    id: int | None = Field(default=None, primary_key=True)
    slug: str = Field(unique=True, max_length=40)
    """128 random bits."""
    kind: str = Field(max_length=20)
    """run, comparison, explorer or ceiling."""
    title: str = Field(max_length=200)
    snapshot: dict[str, Any] = _json(dict)
    schema_version: int = 1
    created_at: datetime = Field(default_factory=now)
    revoked_at: datetime | None = None


class Annotation(SQLModel, table=True):
    """What a person notes in the history at a moment, such as a new power supply."""

    id: int | None = Field(default=None, primary_key=True)
    machine_id: int | None = Field(default=None, foreign_key="machine.id", ondelete="CASCADE", index=True)
    """None: it is about all machines."""
    at: datetime
    text: str = Field(max_length=200)
    created_at: datetime = Field(default_factory=now)

    machine: Machine | None = Relationship()


class SavedView(SQLModel, table=True):
    """A page with its filters, under a name."""

    __tablename__ = "saved_view"

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(unique=True, max_length=80)
    page: str = Field(max_length=20)
    """The name of the page's route, one of db.saved_views.PAGES."""
    query: str = Field(max_length=2000)
    """The query of its address."""
    is_pinned: bool = False
    """Whether the pages show it on top, the overview too."""
    created_at: datetime = Field(default_factory=now)
