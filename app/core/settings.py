"""Settings: `ROOFMARK_*` environment variables over defaults. docs/settings.md documents each one."""

import re
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

import platformdirs
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.core.errors import BadInput
from app.core.units import read_share

LONGEST_TIMEOUT_S = 7 * 24 * 3600.0


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="ROOFMARK_", extra="ignore", env_ignore_empty=True)

    data_dir: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("roofmark", appauthor=False)),
        description="Where the database, backups, logs and the encryption key live.",
    )
    database_url: str | None = Field(
        None, description="SQLAlchemy URL of the database; without it, `roofmark.db` in the data folder."
    )
    host: str = Field("127.0.0.1", description="Address that `serve` listens on.")
    port: int = Field(8765, ge=0, le=65535, description="Port that `serve` listens on; 0 takes any free one.")
    root_path: str = Field("", description="Sub-path under which a reverse proxy shows Roofmark, such as `/roofmark`.")
    public_url: str = Field(
        "",
        description="Address under which others reach Roofmark, with its sub-path: shared links begin with it.",
    )
    allowed_hosts: Annotated[list[str], NoDecode] = Field(
        default_factory=list, description="Further host names under which Roofmark may be reached, comma-separated."
    )
    password: SecretStr | None = Field(None, description="Password of the web pages and the JSON API.")
    allow_no_password: bool = Field(False, description="Listen on a public address although no password is set.")
    secret_key: SecretStr | None = Field(
        None, description="Key that encrypts API keys of servers; without it, one is made in the data folder."
    )
    connect_timeout_s: float = Field(
        5.0, gt=0, le=LONGEST_TIMEOUT_S, description="How long to wait for a connection to a server."
    )
    probe_timeout_s: float = Field(
        5.0, gt=0, le=LONGEST_TIMEOUT_S, description="How long to wait for each answer while probing a server."
    )
    first_byte_timeout_s: float = Field(
        900.0, gt=0, le=LONGEST_TIMEOUT_S, description="How long a prefill may take without any token."
    )
    idle_timeout_s: float = Field(
        60.0, gt=0, le=LONGEST_TIMEOUT_S, description="How long a stream may pause after its first token."
    )
    loading_timeout_s: float = Field(
        900.0, ge=0, le=LONGEST_TIMEOUT_S, description="How long to wait while a server loads its model."
    )
    busy_timeout_s: float = Field(
        60.0, ge=0, le=LONGEST_TIMEOUT_S, description="How long to wait for a server that is busy with others."
    )
    same_within: float = Field(
        0.03, gt=0, lt=1, description="A change whose interval lies within this share counts as the same; also as `1%`."
    )
    notify_urls: SecretStr | None = Field(
        None,
        description="Whom to tell of failed runs, of wrong ones and of those worse than their baseline: Apprise URLs.",
    )
    sensors: bool = Field(
        True,
        description="Read the machine's sensors, and how busy the server is, twice a second in processes of their own.",
    )
    log_level: str = Field("INFO", description="Level of the log on standard error.")

    @cached_property
    def effective_database_url(self) -> str:
        # a folder may have any name, a URL may not
        return self.database_url or f"sqlite:///{quote(str(self.data_dir / 'roofmark.db'))}"

    @property
    def session_info(self) -> dict[str, Any]:
        """The `info` of every database session."""
        return {"same_within": self.same_within}

    def to_env(self) -> dict[str, str]:
        """The environment variables that give a child process the settings that were set."""
        values = self.model_dump(exclude_unset=True, exclude_none=True)
        return {f"ROOFMARK_{name.upper()}": _as_text(value) for name, value in values.items()}

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors()[0]
            name = "ROOFMARK_" + "_".join(str(part) for part in first["loc"]).upper()
            raise BadInput(f"Setting {name} is not usable: {first['msg'].removeprefix('Value error, ')}.") from error

    @field_validator("root_path")
    @classmethod
    def normalize_root_path(cls, value: str) -> str:
        return f"/{value.strip('/')}" if value.strip("/") else ""

    @field_validator("public_url")
    @classmethod
    def check_public_url(cls, value: str) -> str:
        url = value.strip().rstrip("/")
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment)
        if url and (not is_usable or parts.port == 0 or re.search(r"[\s<>\"'\\@]|[^ -~\w]", url)):
            raise ValueError("it must be an address such as https://bench.example.org, without a query or a password")
        return url

    @field_validator("same_within", mode="before")
    @classmethod
    def as_share(cls, value: object) -> object:
        return read_share(value) if isinstance(value, str) else value

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def split_hosts(cls, value: object) -> object:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _as_text(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return ",".join(value) if isinstance(value, list) else str(value)
