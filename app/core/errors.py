"""Every error that a person may see.

* RoofmarkError
  * BadInput          what was asked for makes no sense (HTTP 422, exit code 2)
  * NotFound          the thing named does not exist (HTTP 404, exit code 2)
  * Forbidden         not from there (HTTP 403)
  * Conflict          it exists, but its state forbids this (HTTP 409, exit code 1)
  * ServerError     the measured server does not answer as it should (HTTP 502, exit code 1)
  * StorageError    the database or the data folder cannot be used (HTTP 503, exit code 1)
    * Busy            it is in use right now; the same thing may work in a moment
  * Cancelled         the person stopped it (exit code 130)

`str(error)` is one clear sentence for the person, and `error.message` the same as a Text (`app.core.i18n`), to be
stored. The cause travels as `__cause__` and goes to the log only.
"""

from enum import StrEnum


class RoofmarkError(Exception):
    http_status = 500
    exit_code = 1

    @property
    def message(self) -> str:
        """What `str(error)` says, as the Text that the error was raised with: what is stored of an error."""
        text: str = self.args[0] if self.args else ""
        return text


class BadInput(RoofmarkError):
    http_status = 422
    exit_code = 2


class NotFound(RoofmarkError):
    http_status = 404
    exit_code = 2


class Forbidden(RoofmarkError):
    http_status = 403


class Conflict(RoofmarkError):
    http_status = 409


class ServerErrorKind(StrEnum):
    """Why a measured server could not be used."""

    REFUSED = "refused"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    FORBIDDEN_ADDRESS = "forbidden_address"
    NOT_LLM = "not_llm"
    NEEDS_KEY = "needs_key"
    UNKNOWN_MODEL = "unknown_model"
    LOADING = "loading"
    BUSY = "busy"
    PROMPT_TOO_LONG = "prompt_too_long"
    SERVER_ERROR = "server_error"


class ServerError(RoofmarkError):
    http_status = 502

    def __init__(self, message: str, trouble: ServerErrorKind) -> None:
        super().__init__(message)
        self.trouble = trouble


class StorageError(RoofmarkError):
    http_status = 503


class Busy(StorageError):
    pass


class Cancelled(RoofmarkError):
    http_status = 409
    exit_code = 130
