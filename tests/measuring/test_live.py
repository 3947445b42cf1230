"""What a worker shows of an answer that is arriving, and what a watcher reads of it."""

import json
import stat
from pathlib import Path
from time import perf_counter_ns

import pytest

from app.core.samples import Workload
from app.measure import live
from app.measure.live import Arrived, LiveReader, LiveWriter
from tests.waiting import until

SECOND_NS = 1_000_000_000
Rows = list[tuple[int, bytes]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.live"


def piece(text: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode() + b"\n\n"


def tokens_in(reader: LiveReader) -> int:
    state = reader.look()
    return state.tokens if state else 0


def test_a_watcher_sees_what_arrives_and_nothing_stays(path: Path) -> None:
    rows: Rows = []
    reader = LiveReader(path)
    texts: list[str] = []
    with LiveWriter(path) as writer:
        assert reader.look() is None
        writer.begin_round("openai", Workload(512, 128), is_warmup=True)
        writer.add_stream(rows)
        until(path.exists)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        before = reader.look()
        assert before is not None
        assert (before.tokens, before.tokens_per_s, before.is_new_round, before.about.is_warmup) == (
            0,
            None,
            True,
            True,
        )
        start_ns = perf_counter_ns()
        for n in range(5):
            rows.append((start_ns + n * SECOND_NS // 4, piece(f"{n} ")))
            until(lambda n=n: _gains(reader, texts, n + 1))  # type: ignore[misc]  # a default binds the number of this round
        state = reader.look()
        assert state is not None
        assert "".join(texts) == "0 1 2 3 4 "
        assert state.tokens_per_s == pytest.approx(4)
        assert not state.is_new_round
    assert not list(path.parent.iterdir())
    assert reader.look() is None


def _gains(reader: LiveReader, texts: list[str], tokens: int) -> bool:
    state = reader.look()
    assert state is not None
    texts.append(state.text)
    return state.tokens == tokens


def test_the_next_round_begins_anew(path: Path) -> None:
    reader = LiveReader(path)
    with LiveWriter(path) as writer:
        for n, word in enumerate(("first", "second"), start=1):
            writer.begin_round("openai", Workload(512, 128), is_warmup=False)
            writer.add_stream([(n, piece(word))])
            until(lambda n=n: (state := LiveReader(path).look()) and state.about.number == n and state.tokens)  # type: ignore[misc]  # a default binds the number of this round
            state = reader.look()
            assert state is not None
            assert (state.text, state.tokens, state.is_new_round) == (word, 1, True)


def test_streams_at_once_are_counted_together(path: Path) -> None:
    with LiveWriter(path) as writer:
        writer.begin_round("openai", Workload(512, 128, concurrency=2), is_warmup=False)
        writer.add_stream([(1, piece("a") + piece("b"))])
        writer.add_stream([(2, piece("c")), (3, piece("d")), (4, piece("e"))])
        until(lambda: tokens_in(LiveReader(path)) == 5)
        state = LiveReader(path).look()
        assert state is not None
        assert state.text == "ab"


def test_the_text_of_a_round_is_bounded_and_still_counted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_ROUND_BYTES", 200)
    rows: Rows = [(1, piece("short"))]
    with LiveWriter(path) as writer:
        writer.begin_round("openai", Workload(512, 128), is_warmup=False)
        writer.add_stream(rows)
        until(lambda: tokens_in(LiveReader(path)) == 1)
        rows.extend((n, piece("more " * 10)) for n in range(2, 102))
        until(lambda: tokens_in(LiveReader(path)) == 101)
        assert path.stat().st_size < 500


def test_a_record_that_is_being_written_is_read_when_it_is_whole(path: Path) -> None:
    about = {"number": 1, "engine": "openai", "prompt_tokens": 1, "output_tokens": 2, "streams": 1}
    head = json.dumps({**about, "is_warmup": False, "sent_at": 0.0}).encode() + b"\n"
    body = piece("whole")
    record = b"0 7 1 %d\n%b" % (len(body), body)
    reader = LiveReader(path)
    texts: list[str] = []
    for size in range(len(record) + 1):
        path.write_bytes(head + record[:size])
        state = reader.look()
        texts.append(state.text if state else "")
    assert "".join(texts) == "whole"


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    with LiveWriter(tmp_path / "missing" / "run.live") as writer:
        writer.begin_round("openai", Workload(512, 128), is_warmup=False)
        until(lambda: not writer._thread.is_alive())


def test_a_terminal_is_told_now_and_then(path: Path) -> None:
    notices: list[Arrived] = []
    rows: Rows = [(1, piece("a"))]
    with LiveWriter(path, notices.append) as writer:
        writer.begin_round("openai", Workload(512, 128), is_warmup=False)
        writer.add_stream(rows)
        until(lambda: notices)
        rows += [(2, piece("b")), (3, piece("c"))]
        until(lambda: len(notices) == 2)
    first, second = notices
    assert (first.events, first.per_s, second.events) == (1, None, 3)
    assert second.per_s == pytest.approx(2 / (second.at_s - first.at_s))
