"""Following a server's log, and pairing its lines with the samples."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BadInput
from app.core.samples import CountSource, ServerFigures, Status, Trace
from app.db import runs, samples, servers
from app.db.database import Database
from app.engines import find
from app.engines.base import DIFFERING, FROM_LOG, LoggedRequest
from app.measure import server_log as logfile
from app.measure.runner import Runner
from app.measure.server_log import LogFile, ServerLog, merge_log_figures, open_server_log
from tests.engines.written import SERVERS
from tests.replay import HERE, Request, Script, serve
from tests.runner.conftest import add_server
from tests.runner.listeners import silent
from tests.traces import figures, trace


@pytest.fixture
def path(tmp_path: Path) -> Path:
    log_path = tmp_path / "server.log"
    log_path.write_text("old\n")
    return log_path


@pytest.fixture
def file(path: Path) -> Iterator[LogFile]:
    with closing(LogFile(str(path))) as opened:
        yield opened


def append(path: Path, text: str) -> None:
    with path.open("a") as written:
        written.write(text)


def test_only_what_is_new_and_only_whole_lines(path: Path, file: LogFile) -> None:
    assert file.new_text() == ""
    append(path, "one\ntw")
    assert file.new_text() == "one\n"
    append(path, "o\n")
    assert file.new_text() == "two\n"


def test_a_file_that_was_cut_is_read_from_its_start(path: Path, file: LogFile) -> None:
    append(path, "more than before\nhal")
    file.new_text()
    path.write_text("new\n")
    assert file.new_text() == "new\n"


def test_a_file_that_took_its_place_is_read_after_the_rest_of_the_old_one(path: Path, file: LogFile) -> None:
    append(path, "last")
    path.rename(path.with_suffix(".1"))
    assert file.new_text() == ""  # nothing took its place yet
    path.write_text("first\n")
    assert file.new_text() == "last\nfirst\n"
    append(path, "second\n")
    assert file.new_text() == "second\n"


def test_reading_is_bounded(path: Path, file: LogFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logfile, "MAX_READ_BYTES", 10)
    append(path, "x" * 100 + "\nlast\n")
    assert file.new_text().splitlines()[-1] == "last"
    append(path, "y" * 1000)
    append(path, "z" * 1000)
    assert file.new_text() == ""
    append(path, "\nend\n")
    assert file.new_text().endswith("\nend\n")


def test_only_a_regular_file_is_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    kind = "not a regular file"
    for wrong, reason in ((pipe, kind), (tmp_path, kind), (tmp_path / "server.log" / "in", "cannot be read")):
        (tmp_path / "server.log").touch()
        with pytest.raises(BadInput, match=reason):
            LogFile(str(wrong))


def test_a_link_is_followed_and_a_file_that_appears_later_is_read_from_its_start(tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "target"
    link.symlink_to(target)
    with closing(LogFile(str(link))) as file:
        assert (file.new_text(), file.exists) == ("", False)
        target.write_text("first\nsec")
        assert (file.new_text(), file.exists) == ("first\n", True)
        append(target, "ond\n")
        assert file.new_text() == "second\n"


@pytest.mark.parametrize(("encoding", "mark"), [("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff")])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_log_of_windows_is_read(tmp_path: Path, encoding: str, mark: bytes, is_there: bool) -> None:
    """PowerShell redirects in UTF-16; a look may come between the two bytes of a character."""
    path, lines = tmp_path / "log", "eval time = 5.00 ms / 6 tokens\r\nĊ ਊ\r\n"  # characters with the byte of a newline
    whole = mark + "old\r\n".encode(encoding)
    if is_there:
        path.write_bytes(whole)
    text = ""
    with closing(LogFile(str(path))) as file:
        for byte in (b"" if is_there else whole) + lines.encode(encoding):
            with path.open("ab") as written:
                written.write(bytes([byte]))
            text += file.new_text()
    assert text.endswith(lines)
    assert ("old" in text) is not is_there
    assert [logged.figures.output_tokens for logged in find("llama.cpp").read_log(text)] == [6]


@given(st.lists(st.sampled_from(("a", "bc\n", "\n", "def", "ß\n", "\r\n")), max_size=30))
def test_however_it_is_written_the_lines_come_back(tmp_path_factory: pytest.TempPathFactory, pieces: list[str]) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_bytes(b"")
    text = ""
    with closing(LogFile(str(path))) as file:
        for piece in pieces:
            with path.open("ab") as written:
                written.write(piece.encode())
            text += file.new_text()
    whole = "".join(pieces)
    assert text == whole[: whole.rfind("\n") + 1]


# --- pairing ---------------------------------------------------------------------------------------------------------

BARE = trace(server=None, cached_tokens=None, count_source=CountSource.EVENTS, output_tokens=9)
LOGGED = LoggedRequest(
    replace(figures(), draft_tokens=8, draft_accepted_tokens=4, expert_hit_share=0.9),
    prompt_tokens=512,
    cached_tokens=0,
)


def server_of(merged: Trace) -> ServerFigures:
    assert merged.server is not None
    return merged.server


def test_what_the_answer_did_not_tell_is_filled_in_and_named() -> None:
    (merged,) = merge_log_figures([BARE], [LOGGED])
    assert (merged.output_tokens, merged.count_source, merged.cached_tokens) == (11, CountSource.TIMINGS, 0)
    assert (server_of(merged).decode_ms, server_of(merged).expert_hit_share) == (250, 0.9)
    assert {"decode_ms", "expert_hit_share", "cached_tokens"} <= set(server_of(merged).raw[FROM_LOG])
    (merged,) = merge_log_figures([trace(server=figures(decode_ms=99.0, raw={"a": 1}))], [LOGGED])
    assert (server_of(merged).decode_ms, server_of(merged).draft_tokens) == (99, 8)
    assert server_of(merged).raw == {
        "a": 1, FROM_LOG: ["draft_accepted_tokens", "draft_tokens", "expert_hit_share"], DIFFERING: ["decode_ms"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("traces", "logged"),
    [
        ([trace()], []),
        ([trace(prompt_tokens=100)], [LOGGED]),
        ([trace(output_tokens=7)], [LOGGED]),
        ([trace()], [LOGGED, LOGGED]),  # a stranger asked for the same
        ([trace(status=Status.INCOMPLETE)], [LOGGED]),
        ([trace(prompt_tokens=None, output_tokens=None)], [LOGGED]),
    ],
)
def test_no_pair_where_it_is_not_certain(traces: Sequence[Trace], logged: Sequence[LoggedRequest]) -> None:
    assert merge_log_figures(traces, logged) == list(traces)


def test_a_strangers_request_is_left_alone() -> None:
    foreign = LoggedRequest(figures(prompt_tokens=40, output_tokens=300), prompt_tokens=40, cached_tokens=0)
    (merged,) = merge_log_figures([trace()], [foreign, LOGGED, foreign])
    assert server_of(merged).prompt_tokens == 512


def test_streams_of_one_round_pair_in_the_order_of_their_ends() -> None:
    early, late = trace(end_ms=900.0), trace(end_ms=2000.0)
    first, second = (replace(LOGGED, figures=figures(decode_ms=ms)) for ms in (250.0, 800.0))
    merged = merge_log_figures([late, early], [first, second])
    assert [server_of(merged_trace).decode_ms for merged_trace in merged] == [800, 250]


# --- a whole run -----------------------------------------------------------------------------------------------------


def test_a_run_reads_the_log_of_its_server(database: Database, runner: Runner, short_suite: str, path: Path) -> None:
    """A Strata that tells nothing but its stream, and writes its two lines a moment later."""
    server = SERVERS["strata"]()
    answered, n, prompt = server.routes[server.path], server.output_tokens, server.prompt_tokens
    written, hits = (HERE / "captures/strata/log.txt").read_text().splitlines()[1:3]
    line = written.replace("214", str(prompt)).replace("128 generated", f"{n} generated")

    def answer(request: Request) -> Script:
        append(path, f"{line}\n{hits}\n")
        return answered if isinstance(answered, Script) else answered(request)

    routes = {**server.routes, server.path: answer, "/metrics": Script(status=404)}
    with serve(routes, pace=0.01) as replay:
        slug = add_server(database, replay.url, "strata")
        with database.write() as session:
            servers.edit_server(session, slug, log_path=str(path))
        public_id = runner.perform(slug, short_suite, silent, repetitions=1, warmups=0)
    with database.read() as session:
        run = runs.run(session, public_id)
        assert run.id is not None
        (sample_,) = samples.samples_of(session, run.id)
        config = run.config
    assert server_of(sample_.trace).expert_hit_share == pytest.approx(69120 / 96768)
    assert any("log adds values that the answers lack to 1 sample of 1" in check for check in run.evidence["checks"])
    # the times in this log are not those of the answer
    assert any("do not agree about 1 sample: " in warning for warning in run.evidence["warnings"])
    assert config is not None
    assert str(path) not in str(config.settings)


def test_a_configuration_has_what_the_log_says_of_placement(
    database: Database, runner: Runner, short_suite: str, path: Path
) -> None:
    """llama.cpp tells neither its layers on cards nor its cards by its API."""
    append(path, "load_tensors: offloaded 12/33 layers to GPU\nload_tensors: CUDA0 model buffer size = 900.00 MiB\n")
    server = SERVERS["llama.cpp"]()
    with serve(server.routes, pace=0.01) as replay:
        slug = add_server(database, replay.url, "llama.cpp")
        with database.write() as session:
            servers.edit_server(session, slug, log_path=str(path), settings={"gpu_layers": 20, "n_cpu_moe": 4})
        public_id = runner.perform(slug, short_suite, silent, repetitions=1, warmups=0)
    with database.read() as session:
        run = runs.run(session, public_id)
        config = run.config
    assert config is not None
    assert (config.settings["gpu_layers"], config.settings["n_cpu_moe"]) == (12, 4)
    assert "Layers on GPU: the server reports 12, not the stated 20." in run.evidence["warnings"]


def test_a_log_that_is_not_there_is_a_warning(database: Database, runner: Runner, short_suite: str) -> None:
    server = SERVERS["strata"]()
    with serve(server.routes, pace=0.01) as replay:
        slug = add_server(database, replay.url, "strata")
        with database.write() as session:
            servers.edit_server(session, slug, log_path="/nowhere/server.log")
        public_id = runner.perform(slug, short_suite, silent, repetitions=1, warmups=0)
    with database.read() as session:
        run = runs.run(session, public_id)
    assert run.status == "done"
    assert any(
        "/nowhere/server.log cannot be read: there is no such file." in warning for warning in run.evidence["warnings"]
    )


def test_a_log_of_another_server_is_doubted(path: Path) -> None:
    with open_server_log(str(path), find("llama.cpp")) as (followed, _):
        assert followed is not None
        assert followed.warning is None
        followed.begin_round()
        append(path, "slot print_timing: id  0 | task 1 |        eval time =      50.00 ms /     6 tokens (x)\n")
        followed.add_figures([trace()])
        assert followed.warning == "The server's log mentions none of 1 request: is it the log of this server?"
        append(path, "slot print_timing: id  0 | task 2 |        eval time =      50.00 ms /    11 tokens (x)\n")
        (merged,) = followed.add_figures([trace(server=figures())])
        assert server_of(merged).raw[FROM_LOG] == []
        assert followed.warning is None


def test_an_engine_whose_format_is_not_known_says_so(path: Path) -> None:
    with open_server_log(str(path), find("vllm")) as (followed, trouble):
        assert (followed, "not that of vLLM" in str(trouble)) == (None, True)
    with open_server_log(None, find("llama.cpp")) as nothing:
        assert nothing == (None, None)
    with open_server_log(str(path), find("llama.cpp")) as (followed, trouble):
        log: ServerLog | None = followed
        assert (log is not None, trouble) == (True, None)
