"""`roofmark compare` and `roofmark baseline`: what they print, and with which code they end."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from app.cli import app
from app.cli.compare import print_comparison
from app.core.errors import BadInput
from app.core.settings import Settings
from app.db.database import Database
from app.db.tables import now
from app.results.compare import to_json
from tests.compare.runs import change, compared, place, run, timed

Compare = Callable[..., tuple[int, str]]


@pytest.fixture
def pair(database: Database) -> tuple[str, str]:
    """The second one is a fifth faster, and has one repetition that is not."""
    q8, q4 = place(database)
    return run(database, q8, timed(500, 50)), run(database, q4, timed(400, 60), hours=1)


@pytest.fixture
def roofmark(settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Compare:
    monkeypatch.setattr("app.cli.runs.Settings", lambda: settings)
    monkeypatch.setattr("app.cli.startup.log_to_file", lambda _: None)

    def call(
        *names: str,
        fail_on: tuple[str, ...] = (),
        keys: tuple[str, ...] = (),
        as_json: bool = False,
        same_within: str | None = None,
    ) -> Any:
        code = 0
        try:
            print_comparison([*names], [*fail_on], [*keys], same_within, as_json)
        except typer.Exit as ended:
            code = ended.exit_code
        return code, capsys.readouterr().out

    return call


def test_what_differs_and_each_metric_are_printed(roofmark: Compare, pair: tuple[str, str]) -> None:
    code, output = roofmark(*pair)
    assert code == 0
    assert f"A  Q8_0    Qwen3-8B Q8_0 · run {pair[0]}" in output
    assert output.startswith("Qwen3-8B · llama.cpp b6301 · strix-halo · server strix-halo 8080 · suite triple\n")
    assert "Quantization  Q8_0 | Q4_K_M" in output
    words = "TTFT 20 % shorter, prefill 25 % faster and decode 20 % faster"
    assert f"Q4_K_M against Q8_0: ▲ better. {words}.\n   Differs: Quantization Q8_0 → Q4_K_M. Unknown" in output
    assert "No history yet: runs of one configuration are assumed to differ by 4 % (TTFT)" in output
    assert "best  ▲ 20 % shorter (95 % interval −32 % to −6.4 %)" in output


def test_words_do_as_well(roofmark: Compare, pair: tuple[str, str]) -> None:
    assert roofmark("previous", "latest") == roofmark(*pair)


@pytest.mark.parametrize(
    ("turned", "fail_on", "code"),
    [
        (False, ("worse",), 0),
        (True, ("worse",), 1),
        (False, ("better",), 1),
        (False, ("worse", "inconclusive"), 0),
        (True, (), 0),
    ],
)
def test_the_code_says_whether_the_verdict_occurs(
    roofmark: Compare, pair: tuple[str, str], turned: bool, fail_on: tuple[str, ...], code: int
) -> None:
    assert roofmark(*(pair[::-1] if turned else pair), fail_on=fail_on)[0] == code


def test_only_the_metrics_that_were_asked_for_count(roofmark: Compare, database: Database) -> None:
    q8, q4 = place(database)
    names = run(database, q8, timed(500, 50)), run(database, q4, timed(400, 40))
    assert roofmark(*names, fail_on=("worse",))[0] == 1
    code, output = roofmark(*names, fail_on=("worse",), keys=("ttft_ms",))
    assert code == 0
    assert "Decode" not in output


def test_what_cannot_be_compared_is_no_success(roofmark: Compare, database: Database, pair: tuple[str, str]) -> None:
    change(database, pair[1], suite_sha256="b" * 64)
    code, output = roofmark(*pair)
    assert code == 0
    assert "no verdict. The suite triple changed between them" in output
    assert roofmark(*pair, fail_on=("worse",))[0] == 2


def test_the_document_is_printed(roofmark: Compare, database: Database, pair: tuple[str, str]) -> None:
    code, output = roofmark(*pair, fail_on=("better",), as_json=True)
    assert code == 1
    assert json.loads(output)["pairs"] == json.loads(json.dumps(to_json(compared(database, *pair))))["pairs"]


def test_a_verdict_that_there_is_not(roofmark: Compare, pair: tuple[str, str]) -> None:
    with pytest.raises(BadInput, match="--fail-on takes better, worse, same, inconclusive"):
        roofmark(*pair, fail_on=("slower",))


def test_baselines_are_set_listed_and_cleared(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch, pair: tuple[str, str]
) -> None:
    monkeypatch.setattr("app.cli.runs.Settings", lambda: settings)
    monkeypatch.setattr("app.cli.startup.log_to_file", lambda _: None)
    runner = CliRunner()
    assert "No baseline yet" in runner.invoke(app, ["baseline", "list"]).output
    assert "are compared with" in runner.invoke(app, ["baseline", "set", pair[0]]).output
    assert f"are compared with {pair[1]}" in runner.invoke(app, ["baseline", "set", "latest"]).output
    assert f"are compared with {pair[0]}" in runner.invoke(app, ["baseline", "set", "previous"]).output
    assert f"{pair[0]}  strix-halo · Qwen3-8B · triple" in runner.invoke(app, ["baseline", "list"]).output
    compared_with_it = runner.invoke(app, ["compare", "baseline", "latest", "--fail-on", "better"])
    assert compared_with_it.exit_code == 1
    change(database, pair[0], hidden_at=now())
    assert "triple · hidden, so nothing" in runner.invoke(app, ["baseline", "list"]).output
    change(database, pair[0], hidden_at=None)
    cleared = runner.invoke(app, ["baseline", "clear", "baseline"]).output
    assert cleared == f"Run {pair[0]} is no longer a baseline.\n"
