"""Names of compared results: what differs between them; what they share is stated once."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from app.core.config_settings import IDENTITY_SETTINGS, SETTINGS, format_setting, setting_title
from app.core.configuration import model_names
from app.core.i18n import _, joined, lower_first
from app.core.units import plural
from app.db.configs import snapshot_of
from app.results.compare.observations import SubjectData

USUAL_PARTS = 2
"""The parts of a name beyond which only what is needed to tell the results apart is added."""


@dataclass(frozen=True)
class Fact:
    """One fact about a result, worded so that it stands alone in a name."""

    key: str
    title: str
    text: str
    group: str = ""
    """Facts of one group are written together, as model and quantization are. Without a group, a fact is in a name only
    where no other fact tells the results apart."""
    is_setting: bool = False


@dataclass(frozen=True)
class Naming:
    names: tuple[str, ...]
    """One for each result, all different."""
    shared: tuple[str, ...]
    """What all of them have in common, in the same words, without settings."""
    shared_settings: tuple[str, ...]


def name_subjects(subjects: Sequence[SubjectData], models: Sequence[str], engine_titles: Mapping[str, str]) -> Naming:
    """Names the subjects of a comparison; `models` hold the name of each one's model."""
    return name_by_difference(
        [list(_facts(subject, model, engine_titles)) for subject, model in zip(subjects, models, strict=True)],
        [_last_resort(subject) for subject in subjects],
    )


def _facts(subject: SubjectData, model_name: str, engine_titles: Mapping[str, str]) -> Iterator[Fact]:
    """Returns what a subject may be named after, the most telling first."""
    run, config, model = subject.run, subject.run.config, subject.run.model
    if config is not None and model is not None:
        yield Fact("model", _("Model"), model_name, "model")
        yield Fact("quantization", _("Quantization"), model.quantization or "", "model")
        yield Fact("engine", _("Engine"), engine_titles.get(config.engine, config.engine), "engine")
        yield Fact("engine_version", _("Engine version"), config.engine_version or "", "engine")
    yield Fact("machine", _("Machine"), run.machine.name, "machine")
    settings = config.settings if config is not None else {}
    for key in (*SETTINGS, *(key for key in settings if key not in SETTINGS)):
        if key not in IDENTITY_SETTINGS and settings.get(key) is not None:
            title = setting_title(key)
            yield Fact(key, title, joined(lower_first(title), format_setting(settings[key], key)), is_setting=True)
    yield Fact("labels", _("Labels"), ", ".join(sorted(config.labels)) if config is not None else "")
    yield Fact("server", _("Server"), _("server {server}", server=run.server.name))
    yield Fact("suite", _("Suite"), _("suite {suite}", suite=run.suite_key))


def _last_resort(subject: SubjectData) -> tuple[str, ...]:
    """Returns what tells results apart that have everything in common: the day, the time, the id."""
    run = subject.run
    if len(subject.runs) > 1:
        runs = plural(len(subject.runs), "run")
        return runs, runs, joined(runs, run.public_id, by=" · ")
    if run.started_at is None:
        return run.public_id, run.public_id, run.public_id
    return f"{run.started_at:%Y-%m-%d}", f"{run.started_at:%Y-%m-%d %H:%M}", run.public_id


def model_names_of(subjects: Sequence[SubjectData]) -> list[str]:
    """Returns the model of each subject, empty where it is unknown; the whole model id when two models of a server
    share the name."""
    snapshots = {
        place: snapshot_of(side.config, side.model)
        for place, side in enumerate(subject.run for subject in subjects)
        if side.config and side.model
    }
    is_one_server = len({subject.run.server_id for subject in subjects}) == 1
    names = (
        model_names(list(snapshots.values())) if is_one_server else [snapshot.model for snapshot in snapshots.values()]
    )
    by_place = dict(zip(snapshots, names, strict=True))
    return [by_place.get(place, "") for place in range(len(subjects))]


def name_by_difference(sides: Sequence[Sequence[Fact]], last_resort: Sequence[Sequence[str]]) -> Naming:
    """Names each result by what differs. `sides` hold the facts of each result, the most telling first; `last_resort`
    texts that tell equal ones apart, such as the day and the time of day, the coarsest first.

    >>> facts = [[Fact("model", "Model", "Qwen3", "m"), Fact("q", "Quantization", q, "m")] for q in ("Q4_K_M", "Q8_0")]
    >>> name_by_difference(facts, [("June", "June 3"), ("June", "June 3")])
    Naming(names=('Q4_K_M', 'Q8_0'), shared=('Qwen3',), shared_settings=())
    """
    texts_of = [{fact.key: fact.text for fact in side} for side in sides]
    facts = list({fact.key: fact for side in sides for fact in side}.values())
    differing = [fact for fact in facts if len({texts.get(fact.key, "") for texts in texts_of}) > 1]
    parts: list[list[str]] = []
    for group in _groups(differing):
        words = [joined(*(texts.get(fact.key, "") for fact in group)) or _not_stated(group[0]) for texts in texts_of]
        if _is_needed(group[0], words, parts):
            parts.append(words)
    names = [joined(*words, by=" · ") for words in zip(*parts, strict=True)] if parts else [""] * len(sides)
    shared = [fact for fact in facts if fact not in differing and fact.text]
    return Naming(
        tuple(_told_apart(names, last_resort)),
        tuple(joined(*(fact.text for fact in group)) for group in _groups(f for f in shared if not f.is_setting)),
        tuple(fact.text for fact in shared if fact.is_setting),
    )


def _groups(facts: Iterable[Fact]) -> list[list[Fact]]:
    """Returns facts of one group together, and each of the others alone."""
    return [list(group) for _key, group in groupby(facts, lambda fact: fact.group or fact.key)]


def _is_needed(fact: Fact, words: Sequence[str], parts: Sequence[Sequence[str]]) -> bool:
    """Whether a name gets these words, too: the first parts of it say what differs, all others must tell results apart
    that are called the same so far."""
    if fact.group and len(parts) < USUAL_PARTS:
        return True
    before = len(set(zip(*parts, strict=True))) if parts else 1
    return len(set(zip(*parts, words, strict=True))) > before


def _not_stated(fact: Fact) -> str:
    return _("{setting} not stated", setting=lower_first(fact.title))


def _told_apart(names: Sequence[str], last_resort: Sequence[Sequence[str]]) -> list[str]:
    """Returns the names, and for those that are still the same the coarsest text that tells them apart."""
    told_apart = list(names)
    alike = {name for name, count in Counter(names).items() if count > 1}
    for name in alike:
        places = [place for place, own in enumerate(names) if own == name]
        levels = zip(*(last_resort[place] for place in places), strict=True)
        texts = next((level for level in levels if len(set(level)) == len(places)), None)
        for number, place in enumerate(places):
            ending = texts[number] if texts else last_resort[place][-1]
            told_apart[place] = joined(name, ending, by=" · ")
    return told_apart
