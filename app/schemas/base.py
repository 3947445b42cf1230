"""What the models of all JSON documents share.

A field's name here is its public name. Where the Python attribute that it comes from is renamed, the public name stays:
the code that builds the document maps one to the other, and the tests refuse a response that does not match its model.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

Number = Annotated[int | float, WithJsonSchema({"type": "number"})]
"""A number as it is stored: an integer stays an integer in JSON."""
Timestamp = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""ISO 8601 with the offset of UTC."""
Direction = Literal["higher", "lower"]
VerdictWord = Literal["better", "worse", "same", "mixed", "inconclusive"]
JsonObject = dict[str, Any]


class Document(BaseModel):
    """Base of all models. Unknown keys are refused, so that no document grows a key that its schema lacks."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class ErrorMessage(Document):
    message: str = Field(description="One sentence in English.")


class ErrorDocument(Document):
    """The body of every error."""

    error: ErrorMessage


class HealthDocument(Document):
    status: Literal["ok"]


class Workload(Document):
    """What a suite asks a server for, in nominal tokens."""

    prompt_tokens: int
    output_tokens: int
    concurrency: int = Field(description="Number of simultaneous requests.")
    depth: int = Field(description="Tokens in the cache before the prompt.")


class Ratio(Document):
    """A value divided by that of the base: 1.1 is 10 % more."""

    value: Number
    low: Number = Field(description="Lower end of the 95 % interval.")
    high: Number = Field(description="Upper end of the 95 % interval.")
    p_value: Number = Field(description="Two-sided, of a ratio of 1; not corrected for other metrics.")
    verdict: VerdictWord
    additional_runs_needed: int | None = Field(
        description="Runs of each side that would settle an inconclusive verdict; null: settled, or too many."
    )
