from app.core.configuration import Snapshot
from app.db.configs import ConfigDescription
from app.results.naming import distinct_titles


def snapshot(version: str | None = "b1", labels: tuple[str, ...] = (), **settings: object) -> Snapshot:
    return Snapshot("llama.cpp", version, "Qwen3-8B", "Q4_K_M", settings, labels)


def test_one_name_is_short() -> None:
    assert distinct_titles({1: ConfigDescription("box", snapshot(context=4096))}, {}) == {1: "Qwen3-8B Q4_K_M"}


def test_several_servers_are_named() -> None:
    titles = distinct_titles({1: ConfigDescription("box", snapshot()), 2: ConfigDescription("tower", snapshot())}, {})
    assert titles == {1: "Qwen3-8B Q4_K_M · box", 2: "Qwen3-8B Q4_K_M · tower"}


def test_equal_names_get_what_differs_and_nothing_else() -> None:
    configs = {
        1: ConfigDescription("box", snapshot("b1", context=4096, cards=2)),
        2: ConfigDescription("box", snapshot("b2", context=8192, cards=2)),
        3: ConfigDescription("box", snapshot("b2", context=8192, cards=2, labels=("night",))),
    }
    assert distinct_titles(configs, {"llama.cpp": "Llama"}) == {
        1: "Qwen3-8B Q4_K_M · Llama b1 · Context 4,096",
        2: "Qwen3-8B Q4_K_M · Llama b2 · Context 8,192",
        3: "Qwen3-8B Q4_K_M · Llama b2 · Context 8,192 · night",
    }


def test_what_has_nothing_else_to_tell_it_apart_shows_its_fingerprint() -> None:
    plain, labelled = snapshot(), snapshot(labels=("night",))
    titles = distinct_titles({1: ConfigDescription("box", plain), 2: ConfigDescription("box", labelled)}, {})
    assert titles == {1: "Qwen3-8B Q4_K_M", 2: "Qwen3-8B Q4_K_M · night"}
    alike = {1: ConfigDescription("box", plain), 2: ConfigDescription("box", plain, frozen_fingerprint="abcdefgh")}
    assert distinct_titles(alike, {}) == {
        1: f"Qwen3-8B Q4_K_M · {plain.fingerprint[:6]}",
        2: "Qwen3-8B Q4_K_M · abcdef",
    }
