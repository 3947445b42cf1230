"""What a run was measured with: in neutral words, and what of it a person may add."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from sqlmodel import Session

from app.core import units
from app.core.configuration import runs_elsewhere
from app.core.errors import NotFound
from app.core.i18n import N_, _, joined
from app.db import suites
from app.db.machines import MachineDevice, source_words
from app.db.tables import Config, Machine, Model, Run
from app.metrics import metrics
from app.results.ceiling import RunCeiling
from app.share import anonymize
from app.share.options import Option
from app.share.snapshot import Fact, UserText
from app.suites import Case

TITLES = {Option.MACHINE: N_("Machine"), Option.LABELS: N_("Labels"), Option.FLAGS: N_("Further settings")}
"""Of what is a fact when it is ticked; note and prompt stand by themselves."""
ELSEWHERE = N_("another operator's hardware")


def facts(config: Config, model: Model, held: Sequence[MachineDevice]) -> Iterator[Fact]:
    yield Fact(_("Model"), anonymize.model_name(model.name))
    if quantization := anonymize.safe_token(model.quantization):
        yield Fact(_("Quantization"), quantization)
    yield Fact(_("Engine"), anonymize.engine(config))
    if runs_elsewhere(config.settings):
        yield Fact(_("Runs on"), _(ELSEWHERE))
    if hardware := anonymize.hardware(held):
        yield Fact(_("Hardware"), hardware)
    for title, value in anonymize.settings(config.settings):
        yield Fact(title, value)


def bandwidth(roof: RunCeiling) -> Fact:
    device_share = roof.placement.device_shares[0]
    rate = units.format_bandwidth(device_share.device.bandwidth_bytes_per_s)
    return Fact(_("Memory bandwidth"), joined(rate, source_words(device_share.stated.source), by=" · "))


def meanings(keys: Iterable[str]) -> Iterator[str]:
    """A sentence for each metric: whoever has only the link has no glossary."""
    for key in keys:
        yield joined(metrics()[key].title, metrics()[key].explanation, by=" · ")


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
        Option.LABELS: anonymize.labels(config.labels, run.labels),
        Option.MACHINE: machine.name,
        Option.FLAGS: anonymize.own_settings(config.settings),
        Option.PROMPT: "\n\n".join(case.prompt for case in prompts),
    }
    return {option: text for option, text in words.items() if text}


def prose_of_prompts(prompts: Sequence[Case], ticked: Collection[Option]) -> Iterator[UserText]:
    if Option.PROMPT in ticked:
        for case in prompts:
            yield UserText(_("Prompt of about {n:,} tokens", n=case.point.prompt_tokens), case.prompt)
