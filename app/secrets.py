"""API keys of measured servers are kept encrypted; the key that does it lives beside the database, never in it."""

import os
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

from app.errors import BadInput, StorageProblem
from app.settings import Settings


class Secrets:
    """Encrypts and decrypts short texts with one symmetric key (Fernet: AES-128-CBC and HMAC-SHA256)."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def encrypt(self, text: str) -> str:
        return self._fernet().encrypt(text.encode()).decode()

    def decrypt(self, token: str) -> str:
        try:
            return self._fernet().decrypt(token.encode()).decode()
        except InvalidToken as error:
            raise StorageProblem(
                "The stored API key was encrypted with another secret key: enter it again for this server."
            ) from error

    def _fernet(self) -> Fernet:
        given = self._settings.secret_key
        try:
            return Fernet(given.get_secret_value() if given else _key_file(self._settings.data_dir / "secret.key"))
        except ValueError as error:
            raise BadInput("The secret key is not a Fernet key (32 bytes in URL-safe base64).") from error


def _key_file(path: Path) -> bytes:
    """The key in `path`, made on first use and readable by its owner only."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return path.read_bytes().strip()
        with os.fdopen(handle, "wb") as file:
            key = Fernet.generate_key()
            file.write(key)
        return key
    except OSError as error:
        raise StorageProblem(
            f"The key file {path.name} in the data folder cannot be used: {error.strerror}."
        ) from error
