import stat
import threading
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from app.core.errors import BadInput, StorageError
from app.core.secrets import Secrets
from app.core.settings import Settings


def test_a_key_comes_back_and_is_not_readable_in_between(settings: Settings) -> None:
    token = Secrets(settings).encrypt("sk-secret")
    assert "sk-secret" not in token
    assert Secrets(settings).decrypt(token) == "sk-secret"


def test_the_key_file_is_its_owners_only(settings: Settings) -> None:
    Secrets(settings).encrypt("x")
    assert stat.S_IMODE((settings.data_dir / "secret.key").stat().st_mode) == 0o600


def test_programs_that_start_at_once_agree_on_one_key(settings: Settings) -> None:
    tokens: list[str] = []
    threads = [threading.Thread(target=lambda: tokens.append(Secrets(settings).encrypt("x"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [Secrets(settings).decrypt(token) for token in tokens] == ["x"] * 8


def test_another_key_cannot_read_it_and_says_so(settings: Settings, tmp_path: Path) -> None:
    token = Secrets(settings).encrypt("x")
    for other_key in (
        Settings(data_dir=tmp_path / "other"),
        Settings(data_dir=settings.data_dir, secret_key=Fernet.generate_key().decode()),
    ):
        with pytest.raises(StorageError, match="enter it again"):
            Secrets(other_key).decrypt(token)


def test_keys_that_are_no_keys(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="ROOFMARK_SECRET_KEY"):
        Secrets(Settings(data_dir=tmp_path, secret_key="short")).encrypt("x")
    settings.data_dir.mkdir()
    (settings.data_dir / "secret.key").write_text("")
    with pytest.raises(StorageError, match="damaged"):
        Secrets(settings).encrypt("x")


def test_a_data_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be used"):
        Secrets(Settings(data_dir=tmp_path / "file" / "data")).encrypt("x")
