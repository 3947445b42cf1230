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
    x: str | Number | None
    y: str | Number | None
    lowest: Number | None = Field(description="Null where y is no number.")
    highest: Number | None
    observations: int
    run: str | None = Field(description="Null where the point stands for several observations.")


class LeftOut(Document):
    count: int
    observation: str
    what: str
    reason: str


class ExplorerDocument(Document):
    schema_id: Literal["roofmark.explore/1"] = Field(alias="schema")
    view: dict[str, str | None] = Field(description="The parameters of the address.")
    fields_: ExplorerFields = Field(alias="fields")
    observation: str = Field(description="What one observation is of: run or sample.")
    rows: list[ExplorerRow]
    matching_runs: int
    left_out: list[LeftOut]
    mixed: list[str] = Field(description="Names of fields that differ within a point or series.")
