"""Stored words as they may be public."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.db.machines import MachineDevice
from app.db.tables import Config
from app.hardware.catalogue import built_in
from app.share import anonymize


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("Qwen3-30B-A3B", "Qwen3-30B-A3B"),
        ("llama3.1:8b-instruct", "llama3.1:8b-instruct"),
        ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("/home/ann/models/secret/gemma.gguf", "gemma"),
        ("models/gemma.gguf", "gemma"),
        ("./gemma", "gemma"),
        ("~/gemma.gguf", "gemma"),
        (r"C:\Users\ann\gemma.gguf", "gemma"),
        ("http://10.0.0.5:8080/v1/gemma", "gemma"),
        ("nas.home/gemma", "gemma"),
        ("10.0.0.5:8080/gemma", "gemma"),
        ("/home/ann/gemma/", "gemma"),
        ("/", "a model"),
        ("http://box:8080", "a model"),
        ("http://ann:pass@box.lan:8080/", "a model"),
        ("https://box.lan/v1/gemma?key=hunter2#ann", "gemma"),
        ("gemma.gguf?token=hunter2", "gemma"),
        ("localhost:8080", "a model"),
        ("10.0.0.5:8080", "a model"),
        ("box.lan:8080", "a model"),
        ("qwen2.5:72b", "qwen2.5:72b"),
        ("qwen3-8b@q4_k_m", "qwen3-8b@q4_k_m"),
    ],
)
def test_a_model_is_named_without_where_it_lies(stored: str, shown: str) -> None:
    assert anonymize.model_name(stored) == shown


@given(st.text())
def test_a_model_name_never_holds_a_path(stored: str) -> None:
    shown = anonymize.model_name(stored)
    assert shown
    assert "\\" not in shown
    assert not shown.startswith("/")
    assert shown.count("/") <= 1


HOSTS = st.from_regex(r"[a-z][a-z0-9]{2,9}(\.(lan|local|example))?|10\.\d{1,2}\.\d{1,2}\.\d{1,2}", fullmatch=True)


@given(
    HOSTS.map("zq{}".format),
    st.sampled_from(["", "/", "/v1", "?key=zqkey", "/v1/gemma?key=zqkey", "#zqkey"]),
    st.booleans(),
)
def test_a_model_name_never_holds_a_host_or_a_key(host: str, rest: str, has_port: bool) -> None:
    shown = anonymize.model_name(f"http://zquser:zqpass@{host}{':8080' if has_port else ''}{rest}")
    assert "zq" not in shown
    assert "8080" not in shown


@given(st.text())
def test_a_device_is_one_of_the_catalogue_or_has_no_name(stored: str) -> None:
    names = {device.name for device in built_in().devices}
    assert anonymize.device_name(stored) in names | {anonymize.ACCELERATOR}


@pytest.mark.parametrize("text", ["b6400", "0.11.0", "v0.11.0rc1+cu128", "Q4_K_M"])
def test_versions_and_formats_are_words(text: str) -> None:
    assert anonymize.safe_token(text) == text


@pytest.mark.parametrize(
    "text", ["/opt/llama", "http://box", "my own build", "a:b", "", None, "x" * 80, "10.0.0.7", "box.lan", "ab12" * 6]
)
def test_what_does_not_look_like_one_is_left_out(text: str | None) -> None:
    assert anonymize.safe_token(text) == ""


def config(**settings: Any) -> Config:
    return Config(server_id=1, model_id=1, engine="llama.cpp", settings=settings, fingerprint="")


def test_an_engine_is_named_by_its_title() -> None:
    known_config = config()
    known_config.engine_version = "b6400"
    assert anonymize.engine(known_config) == "llama.cpp b6400"
    known_config.engine, known_config.engine_version = "of my own", "b0-unknown"
    assert anonymize.engine(known_config) == "another engine"


def test_settings_with_a_known_meaning_are_public_and_all_others_are_a_persons_own() -> None:
    values = {"context": 8192, "split_mode": "row", "kv_type_k": "own", "flags": "--api-key x", "rig": "garage"}
    assert anonymize.known_settings(values) == {"context": 8192, "split_mode": "row"}
    assert anonymize.own_settings(values) == "KV cache type K own; Flags --api-key x; rig garage"


@pytest.mark.parametrize("value", ["8192", True, 1.5, ["x"], {"a": 1}, None])
def test_a_setting_of_another_kind_is_none(value: object) -> None:
    assert anonymize.known_settings({"context": value}) == {}


def device(name: str, kind: str = "accelerator", count: int = 1, memory_bytes: int | None = None) -> MachineDevice:
    return MachineDevice(name, kind, count, memory_bytes, [])


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        ([device("NVIDIA GeForce RTX 3090", count=2)], "2 × GeForce RTX 3090"),
        ([device("Ann's card"), device("RTX 4090")], "accelerator and GeForce RTX 4090"),
        ([device("Memory DDR5-6000", "ram", memory_bytes=64 * 10**9)], "64.0 GB of DDR5-6000 memory"),
        ([device("Memory of Ann's box", "ram")], ""),
        ([device("Memory of Ann's box", "ram", memory_bytes=64 * 10**9)], "64.0 GB of memory"),
        ([device("Memory", "ram"), device("RTX 3090")], "GeForce RTX 3090"),
        (
            [device("Memory DDR5-6000 of Ann's box", "ram", memory_bytes=64 * 10**9), device("RTX 3090", count=2)],
            "2 × GeForce RTX 3090, 64.0 GB of DDR5-6000 memory",
        ),
    ],
)
def test_hardware_in_neutral_words(devices: list[MachineDevice], words: str) -> None:
    assert anonymize.hardware(devices) == words
