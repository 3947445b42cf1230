"""The command line as a person and a script meet it: one sentence per error, exit codes, clean JSON."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app import engines
from app.cli import COMMANDS
from app.core import files
from app.db.migrate import revisions
from tests.cli.processes import ROOT, Roofmark, one_sentence
from tests.ports import free_port
from tests.replay import Script, case, case_rows, serve

MODELS = {"/v1/models": Script.json({"object": "list", "data": [{"id": "syn-1", "object": "model"}]})}
STATUS = {"partial": "incomplete", "error": "failed"}
LATE_READING = {"buffered", "late_start", "one_piece", "too_few_events", "zero_span"}


@pytest.mark.parametrize("name", ["S01", "S03", "S14", "S16", "S17", "S18", "S19", "S20", "S23", "S24"])
def test_a_case_from_its_bytes_to_the_document(roofmark: Roofmark, name: str) -> None:
    _, expected = case_rows(name)
    want = expected["expect"]
    with serve({"/v1/chat/completions": case(name), **MODELS}) as replay:
        result = roofmark("run", "--url", f"{replay.url}/v1/", "--reps", "1", "--warmup", "0", "--json")
    document = json.loads(result.stdout)
    assert document["schema"] == "roofmark.run/3"
    assert "Traceback" not in result.stderr
    (sample,) = document["samples"]
    assert sample["status"] == STATUS.get(want["status"], want["status"])
    assert sample["finish_reason"] == want["finish_reason"]
    assert sample["prompt_tokens"] == want["prompt_tokens"]
    assert (sample["ttft_ms"] is None) == (want["ttft_ms"] is None)
    if want["completion_tokens"] is not None:
        assert sample["output_tokens"] == want["completion_tokens"]
    assert sample["text_sha256"] == hashlib.sha256(want["text"].encode()).hexdigest()
    usable = want["status"] == "ok"
    assert (result.returncode, document["run"]["status"]) == ((0, "done") if usable else (1, "failed"))
    assert bool(document["run"]["error"]) is not usable
    measured = {m["key"] for m in document["points"][0]["metrics"]}
    if not usable or want["decode_tps_client"] is None:
        assert "decode_tokens_per_s" not in measured
    elif "decode_tokens_per_s" not in measured:  # a busy machine reads events late, and then says so
        reasons = {null["reason"] for null in document["points"][0]["nulls"] if null["key"] == "decode_tokens_per_s"}
        assert reasons <= LATE_READING
    assert document["run"]["config"]["fingerprint"]


def test_progress_goes_to_standard_error_and_the_result_can_be_shown_again(
    roofmark: Roofmark, roofmark_process: Roofmark
) -> None:
    with serve({"/v1/chat/completions": case("S01"), **MODELS}) as replay:
        run = roofmark_process("run", "--url", replay.url, "--reps", "2", "--warmup", "1", "--note", "hello", "--json")
    assert "1/3" in run.stderr
    assert "3/3" in run.stderr
    document = json.loads(run.stdout)
    shown = roofmark_process("show", document["run"]["id"], "--json")
    assert json.loads(shown.stdout) == document
    assert roofmark("show", "latest", "--json").stdout == shown.stdout
    assert document["run"]["note"] == "hello"
    listed = json.loads(roofmark_process("runs", "--json").stdout)
    assert [run["id"] for run in listed["runs"]] == [document["run"]["id"]]
    text = roofmark("show", document["run"]["id"]).stdout
    assert "TTFT" in text
    assert "Prefill" in text
    assert "Decode" in text


def test_stated_settings_are_remembered_until_they_are_cleared(roofmark: Roofmark) -> None:
    def settings(*more: str) -> dict[str, Any]:
        arguments = ("run", "--url", replay.url, "--reps", "1", "--warmup", "0", "--json", *more)
        config: dict[str, Any] = json.loads(roofmark(*arguments).stdout)["run"]["config"]
        return config

    with serve({"/v1/chat/completions": case("S11"), **MODELS}) as replay:
        first = settings("--set", "cards=2", "--set", "kv_type_k=q8_0", "--set", "quantization=Q4_K_M")
        stated = {"cards": 2, "kv_type_k": "q8_0"}
        assert (first["settings"], first["quantization"]) == ({**stated, "model_id": "syn-1"}, "Q4_K_M")
        assert settings() == first
        assert settings("--set", "cards=")["settings"] == {"kv_type_k": "q8_0", "model_id": "syn-1"}


def test_a_loading_server_is_waited_for_visibly(roofmark: Roofmark) -> None:
    asked = []

    def answer(_: object) -> Script:
        asked.append(1)
        if len(asked) < 3:
            return Script.json({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}, 503)
        return MODELS["/v1/models"]

    with serve({"/v1/chat/completions": case("S11"), "/v1/models": answer}) as replay:
        result = roofmark("run", "--url", replay.url, "--reps", "1", "--warmup", "0")
    assert result.returncode == 0
    assert "so far." in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["run"], 2, "Give its URL with --url"),
        (["run", "--url", "ftp://x"], 2, "Only http"),
        (["run", "--url", "{dead}"], 1, "refused"),
        (["run", "--url", "{dead}", "--suite", "nope"], 2, "no suite 'nope'"),
        (["run", "--url", "{dead}", "--set", "cards"], 2, "key=value"),
        (["run", "--url", "{dead}", "--set", "cards=two"], 2, "whole number"),
        (["run", "--url", "{dead}", "--reps", "0"], 2, "between 1 and"),
        (["run", "--url", "{dead}", "--engine", "nope"], 2, "no engine 'nope'"),
        (["run", "--server", "nope"], 2, "no server called"),
        (["run", "--server", "nope", "--url", "{dead}"], 2, "not both"),
        (["run", "--url", "http://169.254.169.254/"], 1, "metadata"),
        (["probe", "{dead}"], 1, "refused"),
        (["show", "nope"], 2, "no run 'nope'"),
        (["runs", "--status", "nope"], 2, "'nope' is not"),
        (["runs", "--sort", "nope"], 2, "'nope' is not"),
        (["migrate", "9999"], 2, "no revision 9999"),
        (["serve", "--host", "0.0.0.0"], 2, "ROOFMARK_PASSWORD"),
    ],
)
def test_every_error_is_one_sentence(roofmark: Roofmark, arguments: list[str], code: int, sentence: str) -> None:
    dead = f"127.0.0.1:{free_port()}"
    result = roofmark(*(argument.format(dead=dead) for argument in arguments))
    assert result.returncode == code
    assert sentence in one_sentence(result)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [(["probe", "{dead}"], 1, "refused"), (["serve", "--host", "0.0.0.0"], 2, "ROOFMARK_PASSWORD")],
)
def test_an_error_ends_a_process_with_its_sentence_and_code(
    roofmark_process: Roofmark, arguments: list[str], code: int, sentence: str
) -> None:
    test_every_error_is_one_sentence(roofmark_process, arguments, code, sentence)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (Script.json({"error": "Unauthorized"}, 401), "API key"),
        (Script.text("<html><body>Welcome</body></html>", content_type="text/html"), "HTML page"),
        (Script.json({"hello": "world"}), "no LLM server"),
        (Script.text("not json at all"), "not JSON"),
    ],
)
def test_an_unusable_server_is_named(roofmark: Roofmark, answer: Script, sentence: str) -> None:
    with serve({"/v1/models": answer}) as replay:
        result = roofmark("run", "--url", replay.url)
    assert result.returncode == 1
    assert sentence in one_sentence(result)


def test_several_runs_are_measured_one_after_another(roofmark: Roofmark) -> None:
    with serve({"/v1/chat/completions": case("S01"), **MODELS}) as replay:
        at = ("run", "--url", replay.url, "--reps", "1", "--warmup", "0", "--runs", "2")
        result, text = roofmark(*at, "--json"), roofmark(*at)
    documents = json.loads(result.stdout)
    assert [document["run"]["status"] for document in documents] == ["done", "done"]
    assert documents[0]["run"]["id"] != documents[1]["run"]["id"]
    assert "Run 2 of 2." in result.stderr
    assert text.stdout.count("\nDecode  ") == 2
    assert len(json.loads(roofmark("runs", "--json").stdout)["runs"]) == 4


def test_several_suites_take_turns(roofmark: Roofmark) -> None:
    with serve({"/v1/chat/completions": case("S01"), **MODELS}) as replay:
        at = ("run", "--url", replay.url, "--reps", "1", "--warmup", "0", "--times", "2")
        result = roofmark(*at, "--suite", "triple", "--suite", "bench512", "--json")
    documents = json.loads(result.stdout)
    assert [document["run"]["suite"]["key"] for document in documents] == ["triple", "bench512"] * 2
    assert "Run 2 of 4, suite bench512." in result.stderr


def test_the_first_run_that_fails_is_the_last_one(roofmark: Roofmark) -> None:
    with serve({"/v1/chat/completions": case("S17"), **MODELS}) as replay:
        result = roofmark("run", "--url", replay.url, "--reps", "1", "--warmup", "0", "--runs", "3", "--json")
    (document,) = json.loads(result.stdout)
    assert (result.returncode, document["run"]["status"]) == (1, "failed")


@pytest.mark.parametrize("count", ["0", "21"])
def test_a_number_of_runs_that_makes_no_sense_is_bad_usage(roofmark: Roofmark, count: str) -> None:
    assert roofmark("run", "--url", "127.0.0.1:9", "--runs", count).returncode == 2


def test_an_unknown_model_fails_the_run_and_names_those_there_are(roofmark: Roofmark) -> None:
    with serve({"/v1/chat/completions": case("S01"), **MODELS}) as replay:
        result = roofmark("run", "--url", replay.url, "--model", "gpt-17")
    assert result.returncode == 1
    assert "no model 'gpt-17'. It offers: syn-1." in result.stdout


@pytest.mark.parametrize(
    ("name", "value"),
    [("ROOFMARK_PORT", "many"), ("ROOFMARK_IDLE_TIMEOUT_S", "-1"), ("ROOFMARK_DATABASE_URL", "mysql://x/y")],
)
def test_a_bad_setting_is_one_sentence_that_names_it(roofmark: Roofmark, name: str, value: str) -> None:
    assert name in one_sentence(roofmark("runs", **{name: value}))


def test_a_data_folder_that_cannot_be_used_is_one_sentence(roofmark: Roofmark, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert "cannot be" in one_sentence(roofmark("runs", ROOFMARK_DATA_DIR=str(blocked / "data")))


def test_the_doctor_says_what_is_there(roofmark: Roofmark, roofmark_process: Roofmark, tmp_path: Path) -> None:
    with serve({"/v1/chat/completions": case("S11"), **MODELS}) as replay:
        roofmark("run", "--url", replay.url, "--reps", "1", "--warmup", "0")
        result = roofmark_process("doctor")
    assert result.returncode == 0
    assert str(tmp_path / "data") in result.stdout
    assert "syn-1" in result.stdout
    assert f"Engines: {', '.join(sorted(engine.key for engine in engines.all()))}" in result.stdout


@pytest.mark.filterwarnings("ignore:.imghdr. is deprecated:DeprecationWarning")  # Apprise imports it
def test_the_doctor_says_and_tries_who_is_notified(roofmark: Roofmark) -> None:
    assert "--  Notifications: not set up (ROOFMARK_NOTIFY_URLS)" in roofmark("doctor").stdout
    with serve({"/secret-hook": Script.json({})}) as receiver:
        urls = receiver.url.replace("http://", "json://") + "/secret-hook"
        assert "ok  Notifications: JSON" in roofmark("doctor", ROOFMARK_NOTIFY_URLS=urls).stdout
        assert receiver.requests == []
        tried = roofmark("doctor", "--notify", ROOFMARK_NOTIFY_URLS=urls)
        assert "ok  Notifications: a test was sent to JSON" in tried.stdout
        assert [request.json()["title"] for request in receiver.requests] == ["Roofmark: a test"]
    gone = roofmark("doctor", "--notify", ROOFMARK_NOTIFY_URLS=urls)
    assert gone.returncode == 1
    assert "!!  Notifications: The notification did not get through to JSON." in gone.stdout
    assert "secret-hook" not in "".join(result.stdout + result.stderr for result in (tried, gone))


def test_the_list_of_commands_needs_none_of_them() -> None:
    code = (
        "import sys; from app import cli\n"
        "sys.argv = ['roofmark', '--help']\n"
        "try: cli.main()\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(entry.help in result.stdout for entry in COMMANDS.values() if not entry.is_hidden)
    loaded = set(result.stderr.split())
    assert not loaded & {f"app.cli.{entry.module}" for entry in COMMANDS.values()}
    assert not loaded & {"sqlalchemy", "pydantic", "httpx"}


def test_migrate_down_and_up(roofmark_process: Roofmark) -> None:
    newest = revisions(files.MIGRATIONS)[-1]
    assert f"none -> {newest}" in roofmark_process("migrate").stdout
    assert f"{newest} -> none" in roofmark_process("migrate", "base").stdout
    assert roofmark_process("runs").returncode == 0


def test_a_terminal_without_the_characters_still_shows_the_result(roofmark_process: Roofmark) -> None:
    with serve({"/v1/chat/completions": case("S11"), **MODELS}) as replay:
        arguments = ("run", "--url", replay.url, "--reps", "1", "--warmup", "0", "--note", "日本", "--json")
        run = roofmark_process(*arguments, PYTHONIOENCODING="latin-1")
    assert json.loads(run.stdout)["run"]["note"] == "日本"
    assert roofmark_process("runs", PYTHONIOENCODING="latin-1").returncode == 0


def test_an_argument_that_is_no_text_is_bad_usage(roofmark_process: Roofmark) -> None:
    result = roofmark_process("runs", "--model", "\udcff")
    assert result.returncode == 2
    assert "not valid UTF-8" in one_sentence(result)


def test_typos_in_settings_are_pointed_out_but_kept(roofmark: Roofmark) -> None:
    with serve({"/v1/chat/completions": case("S11"), **MODELS}) as replay:
        arguments = ("run", "--url", replay.url, "--reps", "1", "--warmup", "0", "--json")
        result = roofmark(*arguments, "--set", "kv_type_k=q80", "--set", "card=2", "--set", "kv_type_v=q8_0")
    assert "KV cache type K q80 is kept as typed; did you mean q8_0?" in result.stderr
    assert "card is kept as a setting of your own; did you mean cards?" in result.stderr
    assert json.loads(result.stdout)["run"]["config"]["settings"]["kv_type_k"] == "q80"


def test_a_server_that_is_switched_off_is_no_fault_of_the_installation(roofmark: Roofmark) -> None:
    with serve({"/v1/chat/completions": case("S11"), **MODELS}) as replay:
        roofmark("run", "--url", replay.url, "--reps", "1", "--warmup", "0")
    result = roofmark("doctor")
    assert result.returncode == 0
    assert "--  Server" in result.stdout


def test_what_is_stored_can_be_read_when_nothing_can_be_written(roofmark: Roofmark, tmp_path: Path) -> None:
    with serve({"/v1/chat/completions": case("S11"), **MODELS}) as replay:
        roofmark("run", "--url", replay.url, "--reps", "1", "--warmup", "0")
    shutil.rmtree(tmp_path / "data" / "workers")
    (tmp_path / "data" / "workers").write_text("in the way of every lock")
    shutil.rmtree(tmp_path / "data" / "logs")
    (tmp_path / "data" / "logs").write_text("in the way of every log")
    result = roofmark("runs")
    assert "syn-1" in result.stdout
    assert "Traceback" not in result.stderr
