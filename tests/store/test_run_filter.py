"""One filter: every query gives the same runs for it, on both databases."""

from collections.abc import Callable
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import Session, select

from app.core.errors import BadInput
from app.db.database import Database
from app.db.tables import Config, Model, Run, Server
from app.results.explore import observations
from app.results.history.series import history
from app.results.run_filter import PARAMETERS, RunFilter
from app.results.run_list import count_runs, list_runs
from tests.databases import on_both
from tests.filtered import add_notebook, questions


def fits(session: Session, run: Run, question: dict[str, str]) -> bool:
    """Read off the run itself, field by field, without any query of the filter."""
    machine, server, config, model = run.machine, run.server, run.config, run.model
    labels = {label.casefold() for label in [*run.labels, *(config.labels if config else [])]}
    texts = _texts(run, server, config, model) | {machine.name, server.name}
    day = run.started_at.date() if run.started_at else None
    answers: dict[str, Callable[[str], bool]] = {
        "status": lambda text: run.status == text.lower(),
        "machine": lambda text: machine.slug == text.lower(),
        "server": lambda text: server.slug == text.lower(),
        "model": lambda text: model is not None and model.name.casefold() == text.casefold(),
        "suite": lambda text: run.suite_key == text.lower(),
        "config": lambda text: config is not None and config.fingerprint.startswith(text.lower()),
        "engine": lambda text: (config or server).engine == text.lower(),
        "label": lambda text: text.casefold() in labels,
        "text": lambda text: all(
            any(word in phrase.lower() for phrase in texts | labels) for word in text.lower().split()
        ),
        "hidden": lambda text: (run.hidden_at is not None) == (text == "only"),
        "since": lambda text: day is not None and day >= date.fromisoformat(text),
        "until": lambda text: day is not None and day <= date.fromisoformat(text),
    }
    return all(answers[name](text) for name, text in question.items())


def _texts(run: Run, server: Server, config: Config | None, model: Model | None) -> set[str]:
    texts = {run.public_id, run.note, run.hidden_reason}
    if config is None or model is None:
        return texts | {server.engine}
    of_config = {config.note, config.engine, config.engine_version or "", model.name, model.quantization}
    return texts | of_config | {str(value) for value in config.settings.values()}


@on_both
def test_every_query_gives_the_same_runs(database: Database) -> None:
    with database.write() as session:
        add_notebook(session)
    answered = 0
    with database.read() as session:
        runs = session.exec(select(Run)).all()
        for question in questions(session):
            where = RunFilter.parse(question)
            expected = {run.public_id for run in runs if fits(session, run, question)}
            rows, total = list_runs(session, where, per_page=100)
            assert ({row.public_id for row in rows}, total) == (expected, len(expected)), question
            assert count_runs(session, where) == len(expected)
            matching = {
                run.public_id
                for run in runs
                if run.public_id in expected and run.status == "done" and run.config_id and run.hidden_at is None
            }
            points, _ = history(session, where)
            assert {point.public_id for point in points} == matching, question
            observation_set = observations.load_observations(session, where, [])
            assert {row[0] for rows in observation_set.observations.values() for row in rows} == matching, question
            assert observation_set.matching_runs == len(matching)
            answered += 0 < len(expected) < len(runs)
    assert answered > 40, "questions that tell runs apart"


def test_older_names_of_parameters_are_read() -> None:
    assert RunFilter.parse({"from": "2026-09-01", "to": "2026-09-30", "search": "fans"}) == RunFilter(
        since=date(2026, 9, 1), until=date(2026, 9, 30), text="fans"
    )
    assert RunFilter.parse({"from": "2026-01-01", "since": "2026-09-01"}).since == date(2026, 9, 1)
    assert RunFilter.parse({"from": "2026-01-01", "since": " "}).since == date(2026, 1, 1)


@given(
    st.dictionaries(st.sampled_from([*PARAMETERS, "from", "to", "search", "page"]), st.none() | st.text(max_size=20)),
    st.dates(),
)
def test_an_address_of_a_filter_is_read_as_that_filter(query_params: dict[str, str | None], day: date) -> None:
    where, problems = RunFilter.parse_leniently({**query_params, "since": str(day)})
    assert RunFilter.parse(where.active) == where
    assert all(problems)


@pytest.mark.parametrize(
    ("query_params", "sentence"),
    [
        ({"status": "lost"}, "A run's state is one of"),
        ({"hidden": "maybe"}, "Hidden runs are listed"),
        ({"since": "yesterday"}, "A day is written like 2026-11-20; 'yesterday' is not."),
        ({"since": "2026-09-02", "until": "2026-09-01"}, "The first day is after the last one."),
        ({"label": "a\0b"}, "The value of label cannot be searched for."),
        ({"text": "x" * 601}, "The value of text cannot be searched for."),
    ],
)
def test_what_makes_no_sense_is_one_sentence(query_params: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence.replace(".", r"\.")):
        RunFilter.parse({**query_params, "machine": "strix-halo"})
    where, problems = RunFilter.parse_leniently({**query_params, "machine": "strix-halo"})
    assert (where, len(problems)) == (RunFilter(machine="strix-halo"), 1)
