"""The log of a server on this machine, followed during a run: only what is new, only from a regular file, read only."""

import codecs
import logging
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from app.core.errors import BadInput
from app.core.i18n import _
from app.core.samples import Trace
from app.core.units import plural
from app.engines.base import FROM_LOG, Engine
from app.measure.runner.log_matching import merge_log_figures

log = logging.getLogger(__name__)

MAX_BYTES = 4 * 1024 * 1024
"""Of one look; what is beyond, at the start, is skipped."""
EDGE_BYTES = 8 * 1024 * 1024
"""Of what was written before a run."""
LOOKS, PAUSE_S = 6, 0.05
"""A line may be written a moment after the answer has ended."""


class LogFile:
    """Begins at the end of the file. One that took its place, was cut, or appears later is read from its own beginning.

    UTF-8, or by its first bytes UTF-16, which is what PowerShell writes.
    """

    def __init__(self, path: str) -> None:
        """Raises BadInput, in one sentence, for what cannot be followed."""
        self.path = Path(path)
        self._position, self._cut, self._encoding = 0, b"", "utf-8"
        self._file = _opened(self.path)
        if self._file is not None:
            self._encoding = _encoding(self._file)
            self._position = self._whole(os.fstat(self._file).st_size)

    def new_text(self) -> str:
        """Whole lines written since the last look."""
        text = self._lines()
        if self._is_replaced():
            try:
                following = _opened(self.path)
            except BadInput:  # between two files
                following = None
            if following is not None:
                rest = self._cut.decode(self._encoding, "replace")
                self.close()
                self._begin(following)
                text += (rest and f"{rest}\n") + self._lines()
        return text

    def edges(self) -> Iterator[str]:
        """The end of what is there already, then its beginning: in one of them a server says how it started."""
        if self._file is None:
            return
        size = os.fstat(self._file).st_size
        for start in (max(0, self._whole(size - EDGE_BYTES)), 0):
            yield os.pread(self._file, EDGE_BYTES, start).decode(self._encoding, "replace")

    @property
    def is_there(self) -> bool:
        """False for as long as the file has not appeared."""
        return self._file is not None

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _begin(self, file: int | None) -> None:
        self._file, self._position, self._cut, self._encoding = file, 0, b"", "utf-8"

    def _lines(self) -> str:
        """Whole ones; what follows the last of them is kept for the next look."""
        rest = self._rest()  # may begin anew, without what was kept
        whole, end, self._cut = (self._cut + rest).rpartition("\n".encode(self._encoding))
        self._cut = self._cut[-MAX_BYTES:]
        return (whole + end).decode(self._encoding, "replace")

    def _rest(self) -> bytes:
        if self._file is None:
            return b""
        size = os.fstat(self._file).st_size
        if size < self._position:
            self._begin(self._file)
        if self._position < len(codecs.BOM_UTF16):
            self._encoding = _encoding(self._file)
        start = max(self._position, self._whole(size - MAX_BYTES))
        data = os.pread(self._file, size - start, start)
        self._position = start + len(data)
        return data

    def _whole(self, position: int) -> int:
        """The same, or before it, where a character of UTF-16 begins."""
        return position - position % (1 if self._encoding == "utf-8" else 2)

    def _is_replaced(self) -> bool:
        """Also by the first one there is."""
        try:
            now = self.path.stat()
            if self._file is None:
                return True
            ours = os.fstat(self._file)
        except OSError:  # between two names, while it is rotated: the next look tells
            return False
        return (now.st_dev, now.st_ino) != (ours.st_dev, ours.st_ino)


class Following:
    """What a run asks of the log: `begin` before each round, `complete` after it. Neither ever fails."""

    def __init__(self, file: LogFile, engine: Engine) -> None:
        self._file, self._engine = file, engine
        self._asked = self._told = 0

    def begin(self) -> None:
        self._new_text()

    def complete(self, traces: Sequence[Trace]) -> Sequence[Trace]:
        text = ""
        for look in range(LOOKS):
            text += self._new_text()
            logged = self._engine.read_log(text)
            if len(logged) >= len(traces):
                break
            if look < LOOKS - 1:
                time.sleep(PAUSE_S)
        found = merge_log_figures(traces, logged)
        self._asked += len(found)
        self._told += sum(trace.server is not None and FROM_LOG in trace.server.raw for trace in found)
        return found

    @property
    def doubt(self) -> str | None:
        """One sentence when it has told of nothing so far."""
        if not self._file.is_there:
            return _("The server's log {path} cannot be read: there is no such file.", path=self._file.path)
        if self._told or not self._asked:
            return None
        return _(
            "The server's log told of none of {requests}: is it the log of this very server?",
            requests=plural(self._asked, "request"),
        )

    def _new_text(self) -> str:
        try:
            return self._file.new_text()
        except OSError:
            log.info("the server's log cannot be read any more", exc_info=True)
            return ""


def _encoding(file: int) -> str:
    return {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}.get(os.pread(file, 2, 0), "utf-8")


def _opened(path: Path) -> int | None:
    """None for a file that is not there yet. Raises BadInput for what is no file to follow."""
    try:
        # without O_NONBLOCK, opening a pipe would wait for somebody to write into it
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        why = _(error.strerror) if isinstance(error, OSError) and error.strerror else _("not a path")
        raise BadInput(_("The server's log {path} cannot be read: {why}.", path=path, why=why)) from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise BadInput(_("The server's log {path} is not a regular file.", path=path))
    return file


@contextmanager
def following(path: str | None, engine: Engine) -> Iterator[tuple[Following | None, str | None]]:
    """The log of a run, and one sentence where there should be one and is none."""
    if path is None:
        yield None, None
        return
    if not engine.has_log:
        yield (
            None,
            _("The log is not read: its format is known of llama.cpp and Strata, not of {title}.", title=engine.title),
        )
        return
    try:
        file = LogFile(path)
    except BadInput as error:
        yield None, error.message
        return
    try:
        yield Following(file, engine), None
    finally:
        file.close()
