"""The documents "roofmark.run/3", one run with its results, and "roofmark.runs/1", a page of the list of runs."""

from typing import Literal

from pydantic import Field

from app.schemas.base import Document, JsonObject, Number, Ratio, Timestamp, VerdictWord, Workload

Status = Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]
Source = Literal["client", "server", "slope", "sensor", "import"]


class Hidden(Document):
    """A run that statistics leave out."""

    since: Timestamp | None
    reason: str


class SuiteRef(Document):
    key: str
    sha256: str


class MachineRef(Document):
    slug: str
    name: str
    kind: str
    accelerators: list[JsonObject]
    ram_bytes: int | None
    os: str
    cpu: str


class ServerRef(Document):
    slug: str
    name: str


class RunConfig(Document):
    """The configuration that the run froze when it started."""

    engine: str
    engine_version: str | None
    model: str
    quantization: str | None
    settings: JsonObject
    labels: list[str]
    note: str
    fingerprint: str


class ComparedValues(Document):
    source: Source
    base: Number
    other: Number


class RunScatter(Document):
    """The spread between runs of one configuration, for one metric."""

    between_variance: Number = Field(
        description="Variance of the logarithms between runs: history and assumption combined."
    )
    degrees_of_freedom: Number
    repetition_variance: Number | None = Field(description="Usual variance among the repetitions of a run.")
    assumed_deviation: Number | None = Field(description="Standard deviation assumed for lack of history.")
    history_deviation: Number | None = Field(description="Standard deviation between runs in the history.")
    configurations: int = Field(description="Number of configurations with at least two runs in the history.")
    runs: int
    is_elsewhere: bool = Field(description="Whether the history is that of other machines.")


class PreviousRun(Document):
    """The newest run of the nearest earlier configuration with the same suite, and the comparison with it."""

    id: str
    verdict: VerdictWord | None
    reason: str = Field(description="The reason for a missing verdict.")
    ratios: dict[str, Ratio] = Field(description="This run over the previous one, by metric.")
    values: dict[str, ComparedValues]
    unsound: list[str] = Field(description="Disturbances of either run, which leave the verdict inconclusive.")
    scatters: dict[str, RunScatter]


class WrongMetric(Document):
    """A metric that is far from the other runs of the configuration."""

    key: str
    value: Number
    usual: Number = Field(description="The median of the other runs.")
    others: int = Field(description="Number of other runs that the median is of.")
    change: Number = Field(description="Value over usual, minus 1: -0.45 is 45 % below.")


class WrongRun(Document):
    """How a run stands off from the other runs of its configuration."""

    sentence: str
    metrics: list[WrongMetric]
    causes: list[str] = Field(description="What disturbed it, where that is known.")


class Baseline(Document):
    """The pinned baseline, and the comparison with it."""

    baseline_id: str
    is_baseline: bool = Field(description="Whether this run is the baseline itself.")
    verdict: VerdictWord | None
    ratios: dict[str, Ratio] = Field(description="This run over the baseline, by metric.")
    unsound: list[str]
    scatters: dict[str, RunScatter]
    values: dict[str, ComparedValues]
    reason: str


class ServerMetric(Document):
    """A server-side metric of the whole run, warm-ups included, and the client's value for the same requests."""

    name: str
    statistic: Literal["mean", "p50", "p99", "max", "total", "now"]
    unit: str
    value: Number | None = Field(description="Null: between `low` and `high`.")
    how: str = Field(description="The server's own name for it and how the value was computed.")
    low: Number | None
    high: Number | None
    origin: Literal["counters", "answers"]
    client: Number | None
    difference: Number | None = Field(description="Client over server, minus 1.")
    likely_cause: str | None
    null_reason: str | None


class Run(Document):
    id: str
    status: Status
    source: Literal["live", "import"]
    note: str
    labels: list[str]
    hidden: Hidden | None
    queued_at: Timestamp | None
    started_at: Timestamp | None
    finished_at: Timestamp | None
    suite: SuiteRef
    machine: MachineRef
    hardware: list[JsonObject] = Field(description="The machine's devices as they were known when the run started.")
    server: ServerRef
    config: RunConfig | None = Field(description="Null until the run starts.")
    changes: list[str] | None = Field(
        description="Known differences from the nearest earlier configuration: that of the same model on the same "
        "machine with the fewest differences; null without one."
    )
    unknown_settings: list[str] | None = Field(
        description="What that configuration or this one does not state, so that it may differ too; with both values "
        "where one of them does."
    )
    previous: PreviousRun | None
    samples_done: int
    samples_planned: int
    wrong: WrongRun | None = Field(description="Null where it agrees with the other runs of its configuration.")
    warnings: list[str]
    unsound: list[str] = Field(description="Disturbances during the run.")
    server_counted: list[ServerMetric]
    error: str | None


class Metric(Document):
    key: str
    title: str
    source: Source
    value: Number = Field(description="The median of the samples, or of the rounds with several streams.")
    low: Number | None = Field(description="Lower end of the 95 % interval.")
    high: Number | None = Field(description="Upper end of the 95 % interval.")
    minimum: Number | None
    maximum: Number | None
    standard_deviation: Number | None
    samples: int
    left_out: dict[str, int] = Field(description="Number of samples that the metric leaves out, by reason.")
    unit: str


class MissingMetric(Document):
    key: str
    reason: str | None


class DeviceShare(Document):
    """A device that holds a part of the model."""

    name: str
    bandwidth_bytes_per_s: Number
    bandwidth_source: str
    bandwidth_at: Timestamp | None
    bandwidth_after_run: bool = Field(description="Whether the bandwidth was measured or stated after the run.")
    peak_flops: Number | None = Field(description="FLOP/s.")


class Ceiling(Document):
    """The speed that the hardware allows, and the share of it that was reached; shares are of 1 and never clamped."""

    step_bytes: Number = Field(description="Bytes read per decode step.")
    context: int = Field(description="Mean number of tokens in the cache during decode.")
    decode_tokens_per_s: Number
    decode_words: str = Field(description="The arithmetic of the decode ceiling.")
    draft_tokens_per_step: Number | None
    accepted_tokens_per_step: Number | None
    mbu: Number | None = Field(description="Model bandwidth utilization: decode speed over its ceiling.")
    prefill_tokens_per_s: Number | None
    prefill_words: str | None
    ttft_floor_ms: Number | None
    bound: Literal["memory", "compute"] | None = Field(description="The limit of prefill.")
    mfu: Number | None = Field(description="Model FLOP/s utilization: prefill FLOP/s over the compute peak.")
    devices: list[DeviceShare]
    certainty: Literal["bound", "estimate"]
    not_understood: list[str] = Field(description="Keys of the model's geometry that were not understood.")
    geometry_source: str
    geometry_stated_at: Timestamp | None
    kv_type: str
    does_not_fit: str | None
    cache_guard: str | None
    above: list[str] = Field(
        description="The assumptions that may be wrong, where the run was faster than the ceiling."
    )
    assumptions: list[str]


class NoCeiling(Document):
    reason: str


class Limit(Document):
    """Something that limits the result, with its evidence and a remedy."""

    key: str
    of: Literal["TTFT", "Decode"]
    sentence: str
    evidence: str
    remedy: str


class Limits(Document):
    found: list[Limit] = Field(description="The most important one first.")
    unknown: list[str]


class PointResult(Document):
    """The results at one workload of the suite."""

    point: Workload
    metrics: list[Metric]
    nulls: list[MissingMetric]
    disagreement: str | None = Field(description="A warning where client and server report different decode speeds.")
    ceiling: Ceiling | NoCeiling | None
    limits: Limits | None


class Slo(Document):
    ttft_ms: Number
    tpot_ms: Number


class ServedStreams(Document):
    """The results with one number of simultaneous streams."""

    streams: int
    requests: int
    throughput_tokens_per_s: Number | None
    ttft_p50_ms: Number | None
    ttft_p99_ms: Number | None
    tpot_p50_ms: Number | None
    tpot_p99_ms: Number | None
    good_share: Number | None = Field(description="Share of the requests within the limits, 0 to 1.")
    goodput_requests_per_s: Number | None


class Serving(Document):
    """Serving several streams within latency limits."""

    slo: Slo
    largest_streams: int | None = Field(
        description="The largest number of streams up to which every request was within the limits."
    )
    points: list[ServedStreams]


class Sample(Document):
    """One request."""

    ordinal: int
    point: Workload
    warmup: bool
    status: Literal["ok", "incomplete", "failed"]
    ttft_ms: Number | None
    ttfa_ms: Number | None
    e2e_ms: Number | None
    prefill_tokens_per_s: dict[Source, Number | None]
    decode_tokens_per_s: dict[Source, Number | None]
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    token_count_source: Literal["usage", "timings", "events"] | None
    finish_reason: str | None
    text_sha256: str | None
    flags: list[str]
    error: str | None


class RunDocument(Document):
    """One run with its results."""

    schema_id: Literal["roofmark.run/3"] = Field(alias="schema")
    run: Run
    baseline: Baseline | None
    points: list[PointResult]
    serving: Serving | None = Field(description="Null without several streams.")
    samples: list[Sample]


class QueuedRunDocument(RunDocument):
    """The first of the queued runs."""

    queued: list[str] = Field(description="The ids of all queued runs.")


class MetricTitle(Document):
    title: str
    unit: str


class ListedValue(Document):
    value: Number | None
    low: Number | None
    high: Number | None
    standard_deviation: Number | None
    source: Source | None


class ListedRun(Document):
    """A run of the list with its headline metrics at the suite's first workload."""

    id: str
    status: Status
    suite: str
    note: str
    run_labels: list[str]
    hidden: Hidden | None
    wrong: WrongRun | None
    error: str | None
    queued_at: Timestamp | None
    started_at: Timestamp | None
    finished_at: Timestamp | None
    machine: str = Field(description="The slug of the machine.")
    server: str = Field(description="The slug of the server.")
    engine: str | None
    engine_version: str | None
    model: str | None
    quantization: str | None
    settings: JsonObject | None
    labels: list[str] | None = Field(description="Labels of the configuration.")
    fingerprint: str | None
    ttft_ms: ListedValue
    prefill_tokens_per_s: ListedValue
    decode_tokens_per_s: ListedValue
    metrics: dict[str, ListedValue] = Field(description="Every metric that has a value, by its key.")


class RunsDocument(Document):
    """A page of the list of runs."""

    schema_id: Literal["roofmark.runs/1"] = Field(alias="schema")
    total: int
    page: int
    per_page: int
    metrics: dict[str, MetricTitle] = Field(description="Title and unit of every metric, by its key.")
    runs: list[ListedRun]
