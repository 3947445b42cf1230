"""Encryption of the API keys of measured servers; the secret key is beside the database, never in it."""

import hmac
import os
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken
from filelock import FileLock

from app.core.errors import BadInput, StorageError
from app.core.i18n import _
from app.core.settings import Settings


class Secrets:
    """Encrypts and decrypts short texts with one symmetric key (Fernet: AES-128-CBC and HMAC-SHA256)."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def encrypt(self, text: str) -> str:
        """The token that `decrypt` turns back into the text. Raises StorageError, BadInput without a usable key."""
        return self._fernet().encrypt(text.encode()).decode()

    def decrypt(self, token: str) -> str:
        """The text of a token. Raises StorageError for a token of another key, or without a usable key."""
        try:
            return self._fernet().decrypt(token.encode()).decode()
        except InvalidToken as error:
            raise StorageError(
                _("The stored API key was encrypted with another secret key: enter it again for this server.")
            ) from error

    def api_key(self, encrypted: str | None) -> str | None:
        """A server's API key from its stored token; None where the server has none."""
        return self.decrypt(encrypted) if encrypted else None

    def derive(self, purpose: str) -> str:
        """A key for another purpose, derived with HMAC-SHA256: it reveals nothing about the secret key."""
        return hmac.digest(self._key(), purpose.encode(), "sha256").hex()

    def _fernet(self) -> Fernet:
        try:
            return Fernet(self._key())
        except ValueError as error:
            if self._settings.secret_key:
                raise BadInput("ROOFMARK_SECRET_KEY is not a Fernet key (32 bytes in URL-safe base64).") from error
            raise StorageError(
                _("The key file {path} is damaged: restore it, or delete it for a new one.", path=self._path)
            ) from error

    def _key(self) -> bytes:
        if self._settings.secret_key:
            return self._settings.secret_key.get_secret_value().encode()
        try:
            return _key_in(self._path)
        except OSError as error:
            raise StorageError(
                _("The key file {path} cannot be used: {why}.", path=self._path, why=_(str(error.strerror)))
            ) from error

    @property
    def _path(self) -> Path:
        return self._settings.data_dir / "secret.key"


def _key_in(path: Path) -> bytes:
    """The key in `path`, made on first use and readable by its owner only."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock"):  # two programs that start at once agree on one key
            if not path.exists():
                _write_private(path, Fernet.generate_key())
    return path.read_bytes().strip()


def _write_private(path: Path, content: bytes) -> None:
    """Writes the whole file or nothing: a half-written key would make every stored API key unreadable."""
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
