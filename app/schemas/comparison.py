"""The document "roofmark.compare/2": runs and configurations against the first of them."""

from typing import Literal

from pydantic import Field

from app.schemas.base import Direction, Document, JsonObject, Number, Ratio, Timestamp, VerdictWord, Workload
from app.schemas.run import RunScatter, Source


class Subject(Document):
    """A run, or all runs of a configuration."""

    letter: str
    key: str = Field(description="The name it was asked for by: a run's id, or `config:` and one.")
    public_id: str = Field(description="The id of the run, or of the configuration's newest run.")
    title: str
    name: str = Field(description="What tells it apart from the other subjects.")
    unit: str = Field(description="What one value is of: repetition or run.")
    data_source: str
    runs: list[str] = Field(description="The ids of all runs behind the values.")
    machine: str
    server: str
    engine: str | None
    engine_version: str | None
    model: str | None
    quantization: str | None
    settings: JsonObject
    labels: list[str]
    fingerprint: str | None
    suite_key: str
    started_at: Timestamp | None
    reason_not_comparable: str = Field(description="Empty where it can be compared.")
    unsound: list[str] = Field(description="Disturbances during its runs.")


class Difference(Document):
    title: str
    values: list[str] = Field(description="One for each subject.")
    is_setting: bool
    is_always_set: bool = Field(description="Whether a value that is not stated is unknown, and no difference.")


class Pair(Document):
    """A subject against the first one."""

    place: int = Field(description="The position of the subject in `subjects`.")
    reason_not_comparable: str
    differing_settings: list[str]
    unknown_settings: list[str] = Field(
        description="What either side does not state; with both values where one side does."
    )
    verdict: VerdictWord | None
    words: str = Field(description="What the verdict says about each metric; empty without one.")
    unsound: list[str]


class Cell(Document):
    """One metric of one subject."""

    value: Number | None = Field(description="The median.")
    low: Number | None
    high: Number | None
    standard_deviation: Number | None
    count: int
    left_out: int = Field(description="Number of repetitions that were left out.")
    reason: str = Field(description="The reason for a missing value.")
    ratio: Ratio | None = Field(description="Over the first subject.")
    reason_not_comparable: str = Field(description="The reason for a missing ratio.")
    scatter: RunScatter | None


class Row(Document):
    metric: str
    title: str
    unit: str
    better: Direction
    source: Source | None
    cells: list[Cell] = Field(description="One for each subject.")


class ComparedPoint(Document):
    point: Workload
    rows: list[Row]
    extra_rows: list[Row] = Field(description="Metrics that no verdict is based on.")


class Distribution(Document):
    """The times between token events of a subject at the main point."""

    quantiles_ms: list[Number] = Field(description="0 to 100 %, one per cent each.")
    gaps: int
    is_chunks: bool = Field(description="Whether events contain several tokens.")
    reason: str


class ComparedCeiling(Document):
    """The speed that the hardware allows at the main point; shares are fractions of 1 and never clamped."""

    decode_tokens_per_s: Number | None
    decode_words: str
    mbu: Number | None
    prefill_tokens_per_s: Number | None
    prefill_words: str
    mfu: Number | None
    reason: str


class ComparisonDocument(Document):
    """Each list of values has one item per subject, in their order; verdicts compare with the first subject."""

    schema_id: Literal["roofmark.compare/2"] = Field(alias="schema")
    subjects: list[Subject]
    shared: list[str] = Field(description="What all subjects have in common, without settings.")
    shared_settings: list[str]
    differences: list[Difference]
    pairs: list[Pair]
    points: list[ComparedPoint]
    main: Workload | None = Field(description="The main point.")
    distributions: list[Distribution]
    ceilings: list[ComparedCeiling]
    same_within: Number = Field(description="A ratio whose interval lies within this share of 1 counts as the same.")
