"""What a run was measured with: in neutral words, and what of it a person may add."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from sqlmodel import Session

from app import units
from app.configuration import runs_elsewhere
from app.errors import NotFound
from app.i18n import marked
from app.metrics import metrics
from app.models import Config, Machine, Model, Run
from app.roof import RunRoof
from app.share import neutral
from app.share.options import Option
from app.share.snapshot import Fact, Prose
from app.store import suites
from app.store.machines import MachineDevice, source_words
from app.suites import Case

TITLES = {Option.MACHINE: marked("Machine"), Option.LABELS: marked("Labels"), Option.FLAGS: marked("Further settings")}
"""Of what is a fact when it is ticked; note and prompt stand by themselves."""
ELSEWHERE = marked("another operator's hardware")


def facts(config: Config, model: Model, held: Sequence[MachineDevice]) -> Iterator[Fact]:
    yield Fact("Model", neutral.model_name(model.name))
    if quantization := neutral.word(model.quantization):
        yield Fact("Quantization", quantization)
    yield Fact("Engine", neutral.engine(config))
    if runs_elsewhere(config.settings):
        yield Fact("Runs on", ELSEWHERE)
    if hardware := neutral.hardware(held):
        yield Fact("Hardware", hardware)
    for title, value in neutral.settings(config.settings):
        yield Fact(title, value)


def bandwidth(roof: RunRoof) -> Fact:
    device_share = roof.placement.device_shares[0]
    rate = units.bandwidth(device_share.device.bandwidth_bytes_per_s)
    return Fact("Memory bandwidth", f"{rate} · {source_words(device_share.stated.source)}")


def meanings(keys: Iterable[str]) -> Iterator[str]:
    """A sentence for each metric: whoever has only the link has no glossary."""
    for key in keys:
        yield f"{metrics()[key].title} · {metrics()[key].explanation}"


def cases(session: Session, run: Run) -> Sequence[Case]:
    """Of its suite; none when that is no longer there in the version the run was made for."""
    try:
        return suites.suite_by_sha256(session, run.suite_key, run.suite_sha256).cases
    except NotFound:  # see above
        return ()


def own_words(run: Run, machine: Machine, config: Config, prompts: Sequence[Case]) -> dict[Option, str]:
    """What a person may add, where there is any."""
    words = {
        Option.NOTE: run.note,
        Option.LABELS: neutral.labels(config.labels, run.labels),
        Option.MACHINE: machine.name,
        Option.FLAGS: neutral.own_settings(config.settings),
        Option.PROMPT: "\n\n".join(case.prompt for case in prompts),
    }
    return {option: text for option, text in words.items() if text}


def prose_of_prompts(prompts: Sequence[Case], ticked: Collection[Option]) -> Iterator[Prose]:
    if Option.PROMPT in ticked:
        for case in prompts:
            yield Prose(marked("Prompt of about {n:,} tokens", n=case.point.prompt_tokens), case.prompt)
