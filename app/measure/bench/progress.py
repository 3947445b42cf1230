"""What a running measurement tells its caller."""

from dataclasses import dataclass
from datetime import datetime

from app.core.samples import Sample


@dataclass(frozen=True)
class Phase:
    """What is going on, in one sentence."""

    sentence: str


@dataclass(frozen=True)
class SampleProgress:
    sample: Sample
    started_at: datetime
    seconds: float
