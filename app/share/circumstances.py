"""What a run was measured with: in neutral words, and what of it a person may add."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from sqlmodel import Session

from app.core import units
from app.core.config_settings import remote_host
from app.core.errors import NotFound
from app.core.i18n import N_
from app.db import suites
from app.db.machines import MachineDevice, source_words
from app.db.tables import Config, Machine, Model, Run
from app.metrics import metrics
from app.results.ceiling import RunCeiling
from app.share import anonymize
from app.share.options import Option
from app.share.snapshot import Fact, UserText
from app.suites import Case

OPTION_TITLES = {Option.MACHINE: N_("Machine"), Option.LABELS: N_("Labels"), Option.FLAGS: N_("Further settings")}
"""Of what is a fact when it is ticked; note and prompt stand by themselves."""
REMOTE_HARDWARE = N_("another operator's hardware")


def facts(config: Config, model: Model, held: Sequence[MachineDevice]) -> Iterator[Fact]:
    yield Fact("Model", anonymize.model_name(model.name))
    if quantization := anonymize.safe_token(model.quantization):
        yield Fact("Quantization", quantization)
    yield Fact("Engine", anonymize.engine(config))
    if remote_host(config.settings):
        yield Fact("Runs on", REMOTE_HARDWARE)
    if hardware := anonymize.hardware(held):
        yield Fact("Hardware", hardware)
    for title, value in anonymize.settings(config.settings):
        yield Fact(title, value)


def bandwidth_fact(roof: RunCeiling) -> Fact:
    device_share = roof.placement.device_shares[0]
    rate = units.format_bandwidth(device_share.device.bandwidth_bytes_per_s)
    return Fact("Memory bandwidth", f"{rate} · {source_words(device_share.stated.source)}")


def metric_explanations(keys: Iterable[str]) -> Iterator[str]:
    """A sentence for each metric: whoever has only the link has no glossary."""
    for key in keys:
        yield f"{metrics()[key].title} · {metrics()[key].explanation}"


def suite_cases(session: Session, run: Run) -> Sequence[Case]:
    """Of its suite; none when that is no longer there in the version the run was made for."""
    try:
        return suites.suite_by_sha256(session, run.suite_key, run.suite_sha256).cases
    except NotFound:  # see above
        return ()


def optional_texts(run: Run, machine: Machine, config: Config, prompts: Sequence[Case]) -> dict[Option, str]:
    """What a person may add, where there is any."""
    words = {
        Option.NOTE: run.note,
        Option.LABELS: anonymize.labels(config.labels, run.labels),
        Option.MACHINE: machine.name,
        Option.FLAGS: anonymize.own_settings(config.settings),
        Option.PROMPT: "\n\n".join(case.prompt for case in prompts),
    }
    return {option: text for option, text in words.items() if text}


def prompt_texts(prompts: Sequence[Case], ticked: Collection[Option]) -> Iterator[UserText]:
    if Option.PROMPT in ticked:
        for case in prompts:
            yield UserText(N_("Prompt of about {n:,} tokens", n=case.point.prompt_tokens), case.prompt)
