"""Worker processes: starting them, and detecting whether one lives.

A worker holds a lock file while it works (and a terminal while it waits for its turn). The operating system releases
the lock when the process dies, however it dies, so a run in state `running` whose lock is free has lost its worker. The
lock is in the data folder; runs of another data folder (several machines on one PostgreSQL) have another instance id
and are left alone.
"""

import logging
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

import app
from app.core.errors import StorageError
from app.core.i18n import _
from app.core.settings import Settings

log = logging.getLogger(__name__)

MAX_LOG_FILES = 200
LOCK_TIMEOUT_S = 2.0


@contextmanager
def hold(settings: Settings, public_id: str) -> Iterator[bool]:
    """Holds the lock of one run's worker; yields False when another process has it.

    Only the holder removes the file: a process that only checks it could remove a lock that was just taken.
    """
    lock = _lock(settings, public_id)
    try:
        lock.acquire(timeout=LOCK_TIMEOUT_S)  # somebody may be looking at this very moment
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def is_held(settings: Settings, public_id: str) -> bool:
    """Whether a process holds the lock: then the run's worker lives, or a terminal waits for its turn."""
    lock = _lock(settings, public_id)
    try:
        lock.acquire(timeout=0)
    except Timeout:  # the lock is held, so its process lives
        return True
    lock.release()
    return False


def live_path(settings: Settings, public_id: str) -> Path:
    """Where a run's worker shows what is arriving (see measure/live.py); there is a file only while it measures."""
    return _folder(settings, "workers") / f"{public_id}.live"


def _lock(settings: Settings, public_id: str) -> FileLock:
    return FileLock(_folder(settings, "workers") / f"{public_id}.lock")


def instance_id(settings: Settings) -> str:
    """The name of this data folder, the same for all processes that share it."""
    path = _folder(settings, "workers") / "instance"
    try:
        with FileLock(path.with_suffix(".lock"), timeout=10):  # nobody reads a half-written name
            if not path.exists():
                path.write_text(uuid.uuid4().hex, encoding="ascii")
            return path.read_text(encoding="ascii").strip()
    except (OSError, Timeout) as error:
        raise StorageError(_("The data folder cannot be written: check its permissions.")) from error


def start(settings: Settings, name: str, *command: str) -> subprocess.Popen[bytes]:
    """Starts `roofmark COMMAND` in a session of its own, so that it outlives its starter; `name` is that of its log."""
    folder = _folder(settings, "logs")
    for log_file in sorted(folder.glob("run-*.log"), key=lambda path: path.stat().st_mtime)[:-MAX_LOG_FILES]:
        log_file.unlink(missing_ok=True)
    environment = {
        **os.environ,
        **settings.to_env(),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(Path(app.__file__).parent.parent), os.getenv("PYTHONPATH")])),
    }
    with (folder / f"{name}.log").open("ab") as output:
        return subprocess.Popen(  # noqa: S603  # our own interpreter and module
            [sys.executable, "-m", "app", *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )


def _folder(settings: Settings, name: str) -> Path:
    folder = settings.data_dir / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(_("The data folder cannot be written: {why}.", why=_(str(error.strerror)))) from error
    return folder
