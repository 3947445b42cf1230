"""The circumstances of a run: the anonymised facts of a share, and what a person may add."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from sqlmodel import Session

from app.core import units
from app.core.config_settings import remote_host
from app.core.configuration import Snapshot
from app.core.errors import NotFound
from app.core.i18n import N_, _, joined, upper_first
from app.core.samples import Sample
from app.db import suites
from app.db.configs import snapshot_of
from app.db.machines import MachineDevice, source_words
from app.db.tables import Config, Machine, Model, Run
from app.metrics import FLAGS, metrics
from app.results.ceiling import RunCeiling
from app.results.fields.field import RunContext
from app.results.fields.registry import context_fields
from app.share import anonymize
from app.share.options import Option
from app.share.snapshot import Fact, UserText
from app.suites import Case

OPTION_TITLES = {Option.MACHINE: N_("Machine"), Option.LABELS: N_("Labels"), Option.FLAGS: N_("Further settings")}
"""The titles of options that add a fact when ticked; note and prompt have sections of their own."""
REMOTE_HARDWARE = N_("another operator's hardware")


def facts(config: Config, model: Model, devices: Sequence[MachineDevice]) -> Iterator[Fact]:
    """Returns the facts that a share states of a configuration and its hardware, whatever is ticked."""
    context = RunContext(
        anonymous_snapshot(snapshot_of(config, model)),
        engine=anonymize.engine_title(config.engine),
        hardware=anonymize.hardware(devices),
    )
    fields = [field for field in context_fields() if field.is_share_fact]
    for field in sorted(fields, key=lambda field: field.group == "Settings"):
        if field.key == "hardware" and remote_host(config.settings):
            yield Fact(_("Runs on"), _(REMOTE_HARDWARE))
        if text := field.text("share", context):
            yield Fact(_(field.title), text)


def anonymous_snapshot(snapshot: Snapshot, has_own_settings: bool = False) -> Snapshot:
    """Returns the public part of a configuration: no labels, and a person's own settings only when they agreed."""
    return Snapshot(
        engine=snapshot.engine,
        engine_version=anonymize.safe_token(snapshot.engine_version) or None,
        model=anonymize.model_name(snapshot.model),
        quantization=anonymize.safe_token(snapshot.quantization) or None,
        settings=snapshot.settings if has_own_settings else anonymize.known_settings(snapshot.settings),
    )


def bandwidth_fact(ceiling: RunCeiling) -> Fact:
    device_share = ceiling.placement.device_shares[0]
    rate = units.format_bandwidth(device_share.device.bandwidth_bytes_per_s)
    return Fact(_("Memory bandwidth"), joined(rate, source_words(device_share.stated.source), by=" · "))


def metric_explanations(keys: Iterable[str]) -> Iterator[str]:
    """Returns the explanation of each metric, since a shared page has no glossary."""
    for key in keys:
        yield joined(metrics()[key].title, metrics()[key].explanation, by=" · ")


def flag_words(samples: Iterable[Sample]) -> Iterator[str]:
    """Returns what the flags of the samples mean, without those of warm-ups."""
    present = {flag for sample in samples if not sample.is_warmup for flag in sample.flags}
    for key, flag in FLAGS.items():
        if key in present:
            yield joined(upper_first(_(flag.title)), _(flag.sentence), by=" · ")


def suite_cases(session: Session, run: Run) -> Sequence[Case]:
    """Returns the cases of the run's suite; empty when that version of the suite no longer exists."""
    try:
        return suites.suite_by_sha256(session, run.suite_key, run.suite_sha256).cases
    except NotFound:  # see above
        return ()


def optional_texts(run: Run, machine: Machine, config: Config, prompts: Sequence[Case]) -> dict[Option, str]:
    """Returns the texts that a person may add to a share of the run."""
    texts = {
        Option.NOTE: run.note,
        Option.LABELS: anonymize.labels(config.labels, run.labels),
        Option.MACHINE: machine.name,
        Option.FLAGS: anonymize.own_settings(config.settings),
        Option.PROMPT: "\n\n".join(case.prompt for case in prompts),
    }
    return {option: text for option, text in texts.items() if text}


def prompt_texts(prompts: Sequence[Case], ticked: Collection[Option]) -> Iterator[UserText]:
    if Option.PROMPT in ticked:
        for case in prompts:
            yield UserText(_("Prompt of about {n:,} tokens", n=case.point.prompt_tokens), case.prompt)
