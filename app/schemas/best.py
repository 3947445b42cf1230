"""The document "roofmark.best/1": the best of each model, quantization and machine, with its latest result."""

from typing import Literal

from pydantic import Field

from app.schemas.base import Direction, Document, Number, Timestamp, VerdictWord


class Interval(Document):
    """A value divided by another one: 1.1 is 10 % more."""

    value: Number
    low: Number = Field(description="Lower end of the 95 % interval.")
    high: Number = Field(description="Upper end of the 95 % interval.")


class OverBest(Interval):
    verdict: VerdictWord = Field(description="Not corrected for the number of configurations.")


class BestResult(Document):
    """The best configuration of a row; each value is the median of its runs."""

    run: str = Field(description="The run whose value is nearest to the median.")
    value: Number
    runs: int
    metrics: dict[str, Number | None] = Field(description="The headline metrics of the same configuration.")


class LatestResult(Document):
    run: str
    at: Timestamp
    value: Number
    over_best: OverBest | None = Field(description="Its configuration over the best one; null when it is the best one.")
    is_worse: bool = Field(description="Whether it is certainly worse, corrected for the number of configurations.")


class UpdateEffect(Document):
    """What the newest engine update did to the configuration of the latest run."""

    old_version: str
    new_version: str
    at: Timestamp
    before: str = Field(description="The last run with the old version.")
    after: str = Field(description="The first run with the new version.")
    ratio: Interval
    is_certain: bool


class BestRow(Document):
    """A model in one quantization on one machine."""

    model: str
    quantization: str | None
    machine: str = Field(description="A slug.")
    engine: str
    engine_version: str | None
    settings: str = Field(description="In what the best configuration differs from the others of the row, in words.")
    runs_on: str | None = Field(description="The host that runs the model, when the server only forwards requests.")
    runs: int
    best: BestResult
    latest: LatestResult
    change: UpdateEffect | None = Field(description="Null when its settings were measured with one version only.")


class BestDocument(Document):
    schema_id: Literal["roofmark.best/1"] = Field(alias="schema")
    view: dict[str, str] = Field(description="The parameters of the address.")
    suite: str | None
    metric: str
    unit: str
    better: Direction
    verdict: list[str] = Field(description="What is certain, in sentences.")
    rows: list[BestRow]
    wrong_runs: list[str] = Field(
        description="Runs that stand off from the others of their configuration: neither best nor latest."
    )
    hidden_runs: int = Field(description="Hidden runs, which never count.")
    runs_of_other_versions: int = Field(description="Runs of other versions of the suite, which are not comparable.")
