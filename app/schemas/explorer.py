"""The document "roofmark.explore/1": one field of the runs against another."""

from typing import Literal

from pydantic import Field

from app.schemas.base import Document, Number


class ExplorerField(Document):
    name: str
    title: str
    unit: str
    kind: str


class ExplorerFields(Document):
    series: ExplorerField | None
    x: ExplorerField
    y: ExplorerField


class ExplorerRow(Document):
    """One point of the chart; a time is ISO 8601."""

    series: str | Number | None
    parts: dict[str, str | Number | None] = Field(
        description="What splits its line from others of the series: machine, hardware, engine_version, ..."
    )
    x: str | Number | None
    y: str | Number | None
    lowest: Number | None = Field(description="Null where y is no number.")
    highest: Number | None
    observations: int
    run: str | None = Field(description="Null where the point is a median of several observations.")


class LeftOut(Document):
    count: int
    observation: str
    what: str
    reason: str


class ExplorerLines(Document):
    split_by: list[str] = Field(description="The parts in which the runs of one series differ, and so its lines.")
    differ_in: list[str] = Field(description="Other parts in which lines differ.")


class Narrowed(Document):
    """What was left out because there would have been too many lines; `every` in the address brings it back."""

    parts: list[str]
    count: int
    only_value: str | Number | None = Field(description="The one value that is left; null where each line has its own.")
    text: str


class ExplorerDocument(Document):
    schema_id: Literal["roofmark.explore/1"] = Field(alias="schema")
    view: dict[str, str | None] = Field(description="The parameters of the address.")
    fields_: ExplorerFields = Field(alias="fields")
    lines: ExplorerLines
    mark: Literal["median", "latest", "best"] | None = Field(description="Null where each row is one observation.")
    observation: str = Field(description="What one observation is of: run or sample.")
    rows: list[ExplorerRow]
    matching_runs: int
    left_out: list[LeftOut]
    narrowed: list[Narrowed]
    mixed: list[str] = Field(description="Names of fields that differ within a point or series.")
