"""ik_llama.cpp: told from llama.cpp whatever a proxy hides, and what it has beyond llama.cpp."""

import pytest

from app.engines import find, parse_flags, probe
from app.engines.base import CompletionRequest
from tests.engines.conftest import Connect
from tests.engines.servers import with_headers
from tests.engines.test_recognition import without_server_header
from tests.engines.written import ik_llamacpp as written
from tests.engines.written import llamacpp
from tests.replay import Request, Script

IK = find("ik_llama.cpp")


@pytest.mark.parametrize("hidden", [(), ("/props",), ("/v1/models",), ("/health", "/slots")])
@pytest.mark.parametrize("has_header", [True, False])
def test_what_a_proxy_hides(connect: Connect, hidden: tuple[str, ...], has_header: bool) -> None:
    routes = {path: route for path, route in written.server().routes.items() if path not in hidden}
    if not has_header:
        routes = {path: without_server_header(route) for path, route in routes.items()}
    if "/v1/models" in hidden:
        routes["/v1/models"] = Script.json({"data": [{"id": written.MODEL}]})
    _, client = connect(routes)
    assert probe(client).engine == "ik_llama.cpp"


@pytest.mark.parametrize("has_props", [True, False])
def test_llamacpp_is_not_taken_for_it(connect: Connect, has_props: bool) -> None:
    routes = {path: without_server_header(route) for path, route in llamacpp.server().routes.items()}
    if not has_props:
        del routes["/props"]
    _, client = connect(routes)
    assert probe(client).engine == "llama.cpp"


def test_while_it_loads(connect: Connect) -> None:
    refusal = {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}
    loading = with_headers(written.HEADERS, Script.json(refusal, 503))
    _, client = connect({"/": loading, "/v1/models": with_headers(written.HEADERS, Script(status=404))})
    info = probe(client)
    assert (info.engine, info.loading) == ("ik_llama.cpp", True)
    assert not IK.health(client).ready


@pytest.mark.parametrize(("state", "busy"), [(0, False), (1, True)])
def test_its_health_is_not_asked_for(connect: Connect, state: int, busy: bool) -> None:
    """It may read weights again for it."""

    def health(request: Request) -> Script:
        raise AssertionError(request.path)

    routes = {**written.server().routes, "/health": health, "/slots": Script.json([written.slot(state)])}
    replay, client = connect(routes)
    assert probe(client).engine == "ik_llama.cpp"
    assert (IK.health(client).ready, IK.health(client).busy) == (True, busy)
    assert IK.load(client) == {"requests_running": float(busy)}
    assert "/health" not in [request.path for request in replay.requests]


def test_drafts_by_depth(connect: Connect) -> None:
    _, client = connect(written.server().routes, pace=0.01)
    server = IK.stream_completion(client, CompletionRequest("hello", 3, written.MODEL)).server
    assert server is not None
    assert (server.draft_tokens, server.draft_accepted_tokens) == (12, 7)
    assert (server.raw["draft_n_at_depth_1"], server.raw["draft_n_accepted_at_depth_2"]) == (8, 1)


def test_its_log() -> None:
    text = """
INFO [   launch_slot_with_task] slot is processing task | tid="1" timestamp=1 id_slot=0 id_task=5
slot print_timing: id  0 | task 5 |
prompt eval time =    1250.50 ms /   100 tokens (   12.50 ms per token,    79.97 tokens per second)
       eval time =     800.25 ms /    40 tokens (   20.00 ms per token,    50.00 tokens per second)
      total time =    2050.75 ms /   140 tokens
draft acceptance rate = 0.57576 (   19 accepted /    33 generated)
INFO [           release_slots] slot released | tid="1" timestamp=2 id_slot=0 id_task=5 n_ctx=8192 n_past=139
INFO [   launch_slot_with_task] slot is processing task | tid="1" timestamp=3 id_slot=0 id_task=9
slot print_timing: id  0 | task 9 |
prompt eval time =     500.00 ms /   100 tokens (x)
       eval time =     400.00 ms /    40 tokens (x)
"""
    first, second = IK.read_log(text)
    figures = first.figures
    assert (figures.prompt_tokens, figures.prompt_ms, figures.output_tokens, figures.decode_ms) == (
        100,
        1250.5,
        40,
        800.25,
    )
    assert (figures.draft_tokens, figures.draft_accepted_tokens) == (33, 19)
    assert not first.overlaps
    assert not second.overlaps


def test_where_its_log_places_a_model() -> None:
    loader = "llama_model_loader: loaded meta data with 45 key-value pairs and 579 tensors from"
    text = f"""
{loader} {written.MODEL} (version GGUF V3 (latest))
Tensor blk.1.ffn_up_exps.weight (size = 90.00 MiB) buffer type overridden to CPU
llm_load_tensors: offloaded 49/49 layers to GPU
llm_load_tensors:        CPU buffer size = 12000.00 MiB
llm_load_tensors:      CUDA0 buffer size =  4000.50 MiB
llama_kv_cache_init:      CUDA0 KV buffer size =   384.00 MiB
llama_init_from_model:      CUDA0 compute buffer size =   300.00 MiB
"""
    (load,) = IK.read_loads(text)
    assert (load.model_path, load.gpu_layers, load.layers) == (written.MODEL, 49, 49)
    assert load.gpu_weight_mib == {"CUDA0": 4000.5}
    assert load.expert_blocks_in_ram == {1}
    assert not load.is_kv_in_ram


def test_its_own_flags() -> None:
    command = parse_flags("-ngl 99 -fmoe -amb 512 -rtr -ot exps=CPU -ser 6,1")
    assert command.settings == {"gpu_layers": 99, "override_tensor": "exps=CPU"}
    assert command.not_understood == ("-ser 6,1",)
