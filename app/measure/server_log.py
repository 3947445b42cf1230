"""The log of a server on this machine: followed during a run, matched with the run's requests, read for its settings.

It is only read, only from a regular file, and during a run only the new part.
"""

import codecs
import logging
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from app import engines
from app.ceiling.geometry import Geometry
from app.core.errors import BadInput
from app.core.i18n import _
from app.core.samples import CountSource, ServerFigures, Status, Trace
from app.core.units import plural
from app.engines.base import DIFFERING, FROM_LOG, LOG_OVERLAP, Engine, LoggedModelLoad, LoggedRequest, ModelInfo
from app.engines.protocol.server_timings import differing

log = logging.getLogger(__name__)

# --- the file --------------------------------------------------------------------------------------------------------

MAX_READ_BYTES = 4 * 1024 * 1024
"""The most bytes to read at a time; anything beyond, at the start, is skipped."""
EDGE_BYTES = 8 * 1024 * 1024
"""The most bytes to read of what was written before a run."""


class LogFile:
    """A log that is read from its current end. A file that replaced it, was truncated, or appears later is read whole.

    The encoding is UTF-8, or UTF-16 when its first bytes say so, which is what PowerShell writes.
    """

    def __init__(self, path: str) -> None:
        """Opens the log. Raises BadInput, in one sentence, for a path that cannot be followed."""
        self.path = Path(path)
        self._position, self._partial_line, self._encoding = 0, b"", "utf-8"
        self._file = _open_regular_file(self.path)
        if self._file is not None:
            self._encoding = _detect_encoding(self._file)
            self._position = self._character_start(os.fstat(self._file).st_size)

    def new_text(self) -> str:
        """Returns whole lines written since the last call."""
        text = self._new_lines()
        if self._is_replaced():
            try:
                new_file = _open_regular_file(self.path)
            except BadInput:  # between two files
                new_file = None
            if new_file is not None:
                last_line = self._partial_line.decode(self._encoding, "replace")
                self.close()
                self._start_over(new_file)
                text += (last_line and f"{last_line}\n") + self._new_lines()
        return text

    def edges(self) -> Iterator[str]:
        """Returns the end of the existing file, then its beginning: in one of them a server logs how it started."""
        if self._file is None:
            return
        size = os.fstat(self._file).st_size
        for start in (max(0, self._character_start(size - EDGE_BYTES)), 0):
            yield os.pread(self._file, EDGE_BYTES, start).decode(self._encoding, "replace")

    @property
    def exists(self) -> bool:
        """Whether the file has appeared."""
        return self._file is not None

    def close(self) -> None:
        """Closes the file; nothing can be read from it any more."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _start_over(self, file: int | None) -> None:
        self._file, self._position, self._partial_line, self._encoding = file, 0, b"", "utf-8"

    def _new_lines(self) -> str:
        """Returns whole lines; what follows the last of them is kept for the next call."""
        new_bytes = self._new_bytes()  # may start over, without the partial line
        lines, newline, self._partial_line = (self._partial_line + new_bytes).rpartition("\n".encode(self._encoding))
        self._partial_line = self._partial_line[-MAX_READ_BYTES:]
        return (lines + newline).decode(self._encoding, "replace")

    def _new_bytes(self) -> bytes:
        if self._file is None:
            return b""
        size = os.fstat(self._file).st_size
        if size < self._position:
            self._start_over(self._file)
        if self._position < len(codecs.BOM_UTF16):
            self._encoding = _detect_encoding(self._file)
        start = max(self._position, self._character_start(size - MAX_READ_BYTES))
        data = os.pread(self._file, size - start, start)
        self._position = start + len(data)
        return data

    def _character_start(self, position: int) -> int:
        """Returns the position itself, or the one before it when that is where a character of UTF-16 begins."""
        return position - position % (1 if self._encoding == "utf-8" else 2)

    def _is_replaced(self) -> bool:
        """Whether the path names another file than the open one, or the first one when none was open."""
        try:
            at_path = self.path.stat()
            if self._file is None:
                return True
            opened = os.fstat(self._file)
        except OSError:  # between two names, while it is rotated: the next call tells
            return False
        return (at_path.st_dev, at_path.st_ino) != (opened.st_dev, opened.st_ino)


def _detect_encoding(file: int) -> str:
    return {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}.get(os.pread(file, 2, 0), "utf-8")


def _open_regular_file(path: Path) -> int | None:
    """Returns its descriptor; None for a file that does not exist yet. Raises BadInput for anything but a regular
    file."""
    try:
        # without O_NONBLOCK, opening a pipe would wait for somebody to write into it
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError:  # not written yet
        return None
    except (OSError, ValueError) as error:
        why = _(error.strerror) if isinstance(error, OSError) and error.strerror else _("not a path")
        raise BadInput(_("The server's log {path} cannot be read: {why}.", path=path, why=why)) from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise BadInput(_("The server's log {path} is not a regular file.", path=path))
    return file


# --- during a run ----------------------------------------------------------------------------------------------------

READ_ATTEMPTS, ATTEMPT_PAUSE_S = 6, 0.05
"""A line may be written a moment after the answer has ended."""


class ServerLog:
    """The log of a run's server: `begin_round` is called before each round, `add_figures` after it. Neither raises."""

    def __init__(self, file: LogFile, engine: Engine) -> None:
        self._file, self._engine = file, engine
        self._requests = self._matched = 0

    def begin_round(self) -> None:
        """Skips what has been written so far, which is about earlier requests."""
        self._new_text()

    def add_figures(self, traces: Sequence[Trace]) -> Sequence[Trace]:
        """Returns the traces of one round with the log's values for them since `begin_round`."""
        text = ""
        for attempt in range(READ_ATTEMPTS):
            text += self._new_text()
            logged = self._engine.read_log(text)
            if len(logged) >= len(traces):
                break
            if attempt < READ_ATTEMPTS - 1:
                time.sleep(ATTEMPT_PAUSE_S)
        merged = merge_log_figures(traces, logged)
        self._requests += len(merged)
        self._matched += sum(trace.server is not None and FROM_LOG in trace.server.raw for trace in merged)
        return merged

    @property
    def warning(self) -> str | None:
        """Returns one sentence when the log has mentioned no request so far."""
        if not self._file.exists:
            return _("The server's log {path} cannot be read: there is no such file.", path=self._file.path)
        if self._matched or not self._requests:
            return None
        return _(
            "The server's log mentions none of {requests}: is it the log of this server?",
            requests=plural(self._requests, "request"),
        )

    def _new_text(self) -> str:
        try:
            return self._file.new_text()
        except OSError:  # a run goes on without its log
            log.info("the server's log cannot be read any more", exc_info=True)
            return ""


@contextmanager
def open_server_log(path: str | None, engine: Engine) -> Iterator[tuple[ServerLog | None, str | None]]:
    """Returns the log for a run, and one sentence when it should be read and cannot be."""
    if path is None:
        yield None, None
        return
    if not engine.has_log:
        yield (
            None,
            _(
                "The log is not read: Roofmark knows the log formats of {engines}, but not that of {title}.",
                engines=", ".join(engines.log_titles()),
                title=engine.title,
            ),
        )
        return
    try:
        file = LogFile(path)
    except BadInput as error:
        yield None, error.message
        return
    try:
        yield ServerLog(file, engine), None
    finally:
        file.close()


def merge_log_figures(traces: Sequence[Trace], logged: Sequence[LoggedRequest]) -> list[Trace]:
    """Returns the traces with the log's values that their stream did not have; each trace in the log is marked.

    A request is matched by its counts. Several with the same counts match in the order in which they ended, but only
    when the log has exactly as many: with another client's request among them they cannot be told apart. Even then the
    order in which simultaneous streams ended is only likely, so theirs are marked as overlapping.
    """
    candidates = [
        tuple(index for index, entry in enumerate(logged) if trace.status is Status.OK and _counts_agree(trace, entry))
        for trace in traces
    ]
    matches: dict[int, LoggedRequest] = {}
    for entries in dict.fromkeys(filter(None, candidates)):
        streams = [stream for stream, indices in enumerate(candidates) if indices == entries]
        shared = {index for indices in candidates if indices != entries for index in indices}
        if len(streams) == len(entries) and not shared & set(entries):
            streams.sort(key=lambda stream: traces[stream].sent_ns + (traces[stream].end_ms or 0.0) * 1e6)
            several = len(streams) > 1
            figures = (replace(logged[index], overlaps=logged[index].overlaps or several) for index in entries)
            matches.update(zip(streams, figures, strict=True))
    return [
        _with_log_figures(trace, matches[stream]) if stream in matches else trace for stream, trace in enumerate(traces)
    ]


def _counts_agree(trace: Trace, logged: LoggedRequest) -> bool:
    """Whether no count that both have differs, and both have at least one of them."""
    logged_output, output = logged.figures.output_tokens, trace.output_tokens
    if trace.count_source is CountSource.EVENTS or (
        logged.counts_beyond_end and logged_output is not None and output is not None and output < logged_output
    ):
        output = None
    fresh = None
    if trace.prompt_tokens is not None and trace.cached_tokens is not None:
        fresh = trace.prompt_tokens - trace.cached_tokens
    pairs = (
        (output, logged_output),
        (trace.prompt_tokens, logged.prompt_tokens),
        (fresh, logged.figures.prompt_tokens),
    )
    comparable = [pair for pair in pairs if None not in pair]
    return bool(comparable) and all(streamed == in_log for streamed, in_log in comparable)


def _with_log_figures(trace: Trace, logged: LoggedRequest) -> Trace:
    before = trace.server or ServerFigures()
    figures = _of_this_length(logged.figures, before.output_tokens)
    added = {
        field.name: value
        for field in fields(ServerFigures)
        if field.name != "raw"
        and getattr(before, field.name) is None
        and (value := getattr(figures, field.name)) is not None
    }
    changes: dict[str, Any] = {}
    if trace.prompt_tokens is None and logged.prompt_tokens is not None:
        changes["prompt_tokens"] = logged.prompt_tokens
    if trace.cached_tokens is None and logged.cached_tokens is not None:
        changes["cached_tokens"] = logged.cached_tokens
    if trace.count_source in (None, CountSource.EVENTS) and logged.figures.output_tokens is not None:
        changes |= {"output_tokens": logged.figures.output_tokens, "count_source": CountSource.TIMINGS}
    raw: dict[str, Any] = {**before.raw, FROM_LOG: sorted({*added, *changes} - {"count_source"})}
    if logged.overlaps:
        raw[LOG_OVERLAP] = True
    elif names := sorted({*before.raw.get(DIFFERING, ()), *differing(before, figures)}):
        raw[DIFFERING] = names
    return replace(trace, server=replace(before, **added, raw=raw), **changes)


def _of_this_length(logged: ServerFigures, output_tokens: int | None) -> ServerFigures:
    """Returns the values with the decode time scaled to this many tokens, when the log counts a different number."""
    steps = (logged.output_tokens or 0) - 1
    if logged.decode_ms is None or output_tokens in (None, logged.output_tokens) or steps < 1:
        return logged
    return replace(logged, output_tokens=output_tokens, decode_ms=logged.decode_ms * (output_tokens - 1) / steps)


# --- the settings that its last start states -------------------------------------------------------------------------

FULL_OFFLOAD_SHARE = 0.98
"""The share of the weights that a step may read from which on all of them count as on GPUs."""
MIB = 1 << 20


def settings_from_log(
    path: str | None, engine: Engine, model: ModelInfo | None, stated: Mapping[str, Any], geometry: Geometry | None
) -> dict[str, Any]:
    """Returns settings of the model's placement from the lines of the server's last start; empty when the log has none.

    `stated` is what a person entered: settings that agree with it are left out.
    """
    if path is None or not engine.has_log:
        return {}
    try:
        with closing(LogFile(path)) as file:
            loads = next((loads for text in file.edges() if (loads := engine.read_loads(text))), ())
    except (BadInput, OSError):  # the run says so when it follows the log
        log.info("the server's log cannot be read", exc_info=True)
        return {}
    load = _load_of_model(loads, model)
    return {} if load is None else _placement_settings(load, engines.with_flags(stated), geometry)


def _load_of_model(loads: Sequence[LoggedModelLoad], model: ModelInfo | None) -> LoggedModelLoad | None:
    """Returns the last load of this model's file; a draft model is loaded after its model."""
    if model is None or model.file_path is None:
        return loads[-1] if loads else None
    name = _file_name(model.file_path)
    of_model = [load for load in loads if load.model_path is None or _file_name(load.model_path) == name]
    return of_model[-1] if of_model else None


def _file_name(path: str) -> str:
    """Returns the name of a file, also of a path on Windows."""
    return re.split(r"[\\/]", path)[-1]


def _placement_settings(load: LoggedModelLoad, stated: Mapping[str, Any], geometry: Geometry | None) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    layers, stated_layers = load.gpu_layers, stated.get("gpu_layers")
    is_all = layers is not None and layers == load.layers
    if layers is not None and not (is_all and isinstance(stated_layers, int) and stated_layers >= layers):
        settings["gpu_layers"] = layers
    settings |= _expert_settings(load.expert_blocks_in_ram, stated, geometry)
    if load.is_kv_in_ram and layers:
        settings["kv_offload"] = "off"
    mib_by_gpu = load.gpu_weight_mib
    total_mib = sum(mib_by_gpu.values())
    if len(mib_by_gpu) > 1 and "tensor_split" not in stated:
        settings["tensor_split"] = ",".join(
            f"{100 * mib / total_mib:.0f}" for _name, mib in sorted(mib_by_gpu.items(), key=_device_number)
        )
    weights = geometry.weights if geometry else None
    read_bytes = weights.total.n_bytes - weights.unread.n_bytes if weights else 0  # all experts among them
    if mib_by_gpu and read_bytes and total_mib * MIB < FULL_OFFLOAD_SHARE * read_bytes:
        settings["gpu_weight_mib"] = round(total_mib)
    return settings


def _device_number(item: tuple[str, float]) -> list[int]:
    """Returns a sort key that puts `CUDA2` before `CUDA10`."""
    return [int(digits) for digits in re.findall(r"\d+", item[0])]


def _expert_settings(
    blocks_in_ram: frozenset[int], stated: Mapping[str, Any], geometry: Geometry | None
) -> dict[str, Any]:
    """Returns settings of experts: the first blocks that have experts are `n_cpu_moe`, any others a pattern; a stated
    value that agrees stays."""
    if not blocks_in_ram or "override_tensor" in stated:
        return {}
    last, stated_count = max(blocks_in_ram), stated.get("n_cpu_moe")
    with_experts = set(geometry.expert_blocks if geometry and geometry.expert_blocks else range(last + 1))
    if {block for block in with_experts if block <= last} <= blocks_in_ram:
        return {} if isinstance(stated_count, int) and stated_count > last else {"n_cpu_moe": last + 1}
    return {"override_tensor": rf"blk\.({'|'.join(map(str, sorted(blocks_in_ram)))})\.ffn_.*_exps=CPU"}
