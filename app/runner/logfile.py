"""The log of a server on this machine, followed during a run: only what is new, only from a regular file, read only."""

import logging
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from app.engines.base import Engine
from app.errors import BadInput
from app.i18n import _, marked, translated
from app.runner.pairing import with_log
from app.samples import Trace

log = logging.getLogger(__name__)

MAX_BYTES = 4 * 1024 * 1024
"""Of one look; what is beyond, at the start, is skipped."""
LOOKS, PAUSE_S = 6, 0.05
"""A line may be written a moment after the answer has ended."""


class LogFile:
    """Begins at the end of the file. A file that took its place, or was cut, is read from its own beginning."""

    def __init__(self, path: str) -> None:
        """Raises BadInput, in one sentence, for what cannot be followed."""
        self._path = Path(path)
        self._file = _opened(self._path)
        self._position = os.fstat(self._file).st_size
        self._cut = b""

    def new_text(self) -> str:
        """Whole lines written since the last look."""
        rest = self._rest()
        data = self._cut + rest
        if self._is_replaced():
            try:
                following = _opened(self._path)
            except BadInput:  # between two files
                following = None
            if following is not None:
                os.close(self._file)
                self._file, self._position = following, 0
                data += (b"" if data.endswith(b"\n") or not data else b"\n") + self._rest()
        whole, newline, self._cut = data.rpartition(b"\n")
        self._cut = self._cut[-MAX_BYTES:]
        return (whole + newline).decode("utf-8", "replace")

    def close(self) -> None:
        os.close(self._file)

    def _rest(self) -> bytes:
        size = os.fstat(self._file).st_size
        if size < self._position:
            self._position, self._cut = 0, b""
        start = max(self._position, size - MAX_BYTES)
        data = os.pread(self._file, size - start, start)
        self._position = start + len(data)
        return data

    def _is_replaced(self) -> bool:
        try:
            now, ours = self._path.stat(), os.fstat(self._file)
        except OSError:  # between two names, while it is rotated: the next look tells
            return False
        return (now.st_dev, now.st_ino) != (ours.st_dev, ours.st_ino)


class Following:
    """What a run asks of the log: `begin` before each round, `complete` after it. Neither ever fails."""

    def __init__(self, file: LogFile, engine: Engine) -> None:
        self._file, self._engine = file, engine

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
        return with_log(traces, logged)

    def _new_text(self) -> str:
        try:
            return self._file.new_text()
        except OSError:
            log.info("the server's log cannot be read any more", exc_info=True)
            return ""


def _opened(path: Path) -> int:
    try:
        # without O_NONBLOCK, opening a pipe would wait for somebody to write into it
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else marked("not a path")
        raise BadInput(
            _("The server's log {path} cannot be read: {why}.", path=path, why=translated(str(why)))
        ) from error
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
            marked(
                "The log is not read: its format is known of llama.cpp and Strata, not of {title}.", title=engine.title
            ),
        )
        return
    try:
        file = LogFile(path)
    except BadInput as error:
        yield None, str(error)
        return
    try:
        yield Following(file, engine), None
    finally:
        file.close()
