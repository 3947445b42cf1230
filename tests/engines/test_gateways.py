"""Gateways: which engine runs each model, how it was started, and that asking starts nothing and shows no secret."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import pytest

from app.core.errors import ServerError
from app.core.samples import CacheDefeat, Kind, Status, Trace
from app.engines import find, probe
from app.engines.base import CompletionRequest, ModelInfo, ServerInfo
from app.engines.flags import model_arguments, program_of, split_command
from app.engines.http import ServerClient
from app.engines.protocol.gateway import arguments_of, can_stand_behind, engine_of_command
from tests.engines.conftest import Connect
from tests.engines.prompt_cache import LEAD_TOKENS, Turn
from tests.engines.servers import CHAT, Route, with_headers
from tests.engines.test_recognition import without_server_header
from tests.engines.written import SERVERS, dockermodelrunner, jan, lemonade, llamafile, llamaswap
from tests.engines.written.llamaswap import READY, Backend, Gateway, refusal
from tests.replay import Script, capture

SWAP, DOCKER, LEMONADE = find("llama-swap"), find("docker-model-runner"), find("lemonade")
PROMPT = " ".join(f"word{position}" for position in range(120))


def aim(client: ServerClient, model: ModelInfo | None) -> ModelInfo:
    """Points the client at a model as a run does."""
    assert model is not None
    client.backend = model.engine
    client.model = None if model.is_loaded is None else model.id
    return model


def ask(client: ServerClient, model: ModelInfo, info: ServerInfo, nonce: str = "0123abcd") -> Trace:
    request = CompletionRequest(PROMPT, 8, model.id, nonce=nonce, capabilities=info.capabilities)
    return find(info.engine).stream_completion(client, request)


@contextmanager
def nothing_is_started(gateway: Gateway) -> Iterator[None]:
    before = list(gateway.loads)
    yield
    assert gateway.loads == before


# --- llama-swap ------------------------------------------------------------------------------------------------------


def test_what_llama_swap_runs_and_how_it_was_started(connect: Connect) -> None:
    gateway = llamaswap.gateway()
    _, client = connect(gateway.routes)
    with nothing_is_started(gateway):
        info = probe(client)
    qwen, alias, gemma, peer = info.models
    assert (qwen.engine, qwen.engine_version, qwen.is_loaded) == ("llama.cpp", "b10068-abc", True)
    assert (qwen.size_bytes, qwen.parameters) == (5027783488, 8190735360)
    assert (qwen.file_path, qwen.quantization, qwen.context_tokens) == ("/models/Qwen3-8B-Q4_K_M.gguf", "Q4_K_M", 8192)
    assert qwen.settings == {
        "flags": "--mlock", "gpu_layers": 99, "kv_type_k": "q8_0", "kv_type_v": "q8_0", "parallel": 2,
    }  # fmt: skip
    assert (alias.id, alias.engine, alias.settings) == ("small", "llama.cpp", qwen.settings)
    assert (gemma.id, gemma.engine, gemma.is_loaded, gemma.settings) == ("org/gemma", None, False, {})
    assert (peer.runs_on, peer.engine, peer.is_loaded) == ("attic", None, None)
    assert info.model(None) is qwen


def test_no_secret_of_a_command_line_is_kept(connect: Connect) -> None:
    _, client = connect(llamaswap.gateway().routes)
    document = json.dumps(asdict(probe(client)))
    assert not [secret for secret in ("hf_abcdefghijkl", "not-for-others", "HF_TOKEN", "docker") if secret in document]


@pytest.mark.parametrize("sends_loading_state", [False, True])
def test_a_model_behind_llama_swap_is_measured_by_its_own_engine(connect: Connect, sends_loading_state: bool) -> None:
    gateway = llamaswap.gateway(sends_loading_state=sends_loading_state)
    gateway.backends["qwen"].state = "stopped"
    replay, client = connect(gateway.routes, pace=0.05)
    info = probe(client)
    model = aim(client, info.model("qwen"))
    warm_up = ask(client, model, info)
    assert (warm_up.status, warm_up.output_tokens, gateway.loads) == (Status.OK, 8, ["qwen"])
    assert sum(event.kind is Kind.REASONING for event in warm_up.events) == 0
    info = probe(client)
    model = aim(client, info.model("qwen"))
    traces = [ask(client, model, info, nonce=f"{ordinal:08x}") for ordinal in range(5)]
    turns = gateway.backends["qwen"].chat.turns[1:]
    assert [turn.cached_tokens for turn in turns] == [0] * 5
    assert {turn.body["ignore_eos"] for turn in turns} == {True}
    for trace in traces:
        assert (trace.status, trace.cache_defeat, trace.cached_tokens) == (Status.OK, CacheDefeat.SWITCH, 0)
        assert trace.server is not None
        assert (trace.server.prompt_tokens, trace.server.decode_ms) == (len(PROMPT.split()) + LEAD_TOKENS, 70.0)
    assert {request.json()["model"] for request in replay.requests if request.method == "POST"} == {"qwen"}


def test_vllm_behind_llama_swap(connect: Connect) -> None:
    gateway = llamaswap.gateway()
    gateway.backends["qwen"].state, gateway.backends["org/gemma"].state = "stopped", READY
    _, client = connect(gateway.routes, pace=0.05)
    info = probe(client)
    model = aim(client, info.model("org/gemma"))
    assert (model.engine, model.engine_version, model.context_tokens) == ("vllm", "0.23.0", 8192)
    assert (model.settings["cards"], model.quantization) == (2, "AWQ")
    traces = [ask(client, model, info) for _ in range(5)]
    turns = gateway.backends["org/gemma"].chat.turns
    assert {trace.cache_defeat for trace in traces} == {CacheDefeat.SWITCH}
    assert {turn.body["min_tokens"] for turn in turns} == {8}
    assert SWAP.load(client) == {"requests_running": 0.0}


def test_words_while_a_model_loads_start_no_clock_even_if_it_then_fails(connect: Connect) -> None:
    gateway = llamaswap.gateway(sends_loading_state=True)
    words = gateway._with_loading("qwen", refusal(502, "upstream command exited prematurely"))
    _, client = connect(
        {**gateway.routes, CHAT: replace(words, status=200, headers={"content-type": "text/event-stream"})}
    )
    trace = ask(client, ModelInfo("qwen", "qwen"), probe(client))
    assert (trace.status, trace.output_tokens) == (Status.FAILED, None)
    assert "upstream command exited prematurely" in str(trace.error)


def test_nothing_that_is_asked_between_samples_starts_a_server(connect: Connect) -> None:
    gateway = llamaswap.gateway()
    replay, client = connect(gateway.routes)
    model = aim(client, probe(client).model("org/gemma"))
    with nothing_is_started(gateway):
        assert (model.is_loaded, SWAP.health(client).ready, SWAP.health(client).busy) == (False, True, None)
        assert "first request loads" in SWAP.health(client).detail
        assert (SWAP.counters(client), SWAP.load(client)) == (None, {})
        assert SWAP.prompt_tokens(client, CompletionRequest("a", 1, model.id)) is None
    client.backend = "vllm"  # it ran before, and was stopped since
    with nothing_is_started(gateway):
        assert (SWAP.counters(client), SWAP.load(client), SWAP.health(client).busy) == (None, {}, None)
    assert not [request for request in replay.requests if request.path.startswith("/upstream/org")]


def test_the_counters_behind_llama_swap(connect: Connect) -> None:
    gateway = llamaswap.gateway()
    _, client = connect(gateway.routes, pace=0.05)
    info = probe(client)
    model = aim(client, info.model(None))
    before = SWAP.counters(client)
    assert [ask(client, model, info).status for _ in range(2)] == [Status.OK] * 2
    after = SWAP.counters(client)
    assert before is not None
    assert after is not None
    measured = {metric.name: metric.value for metric in SWAP.server_metrics(before, after, model.id, 2)}
    assert measured["output_tokens"] == 16.0
    assert measured["decode_tokens_per_s"] == pytest.approx(100.0)
    assert (SWAP.load(client), SWAP.health(client).busy) == ({"requests_running": 0.0}, False)
    assert SWAP.server_metrics(replace(before, counted_by=None), after, model.id, 2) == ()


@pytest.mark.parametrize(("state", "is_ready"), [("starting", False), ("stopping", False), ("ready", True)])
@pytest.mark.parametrize("name", ["qwen", "small"])
def test_the_state_of_a_models_server(connect: Connect, state: str, is_ready: bool, name: str) -> None:
    gateway = llamaswap.gateway()
    gateway.backends["qwen"].state = state
    _, client = connect(gateway.routes)
    assert SWAP.health(client).ready
    client.model, client.backend = name, "llama.cpp"
    assert SWAP.health(client).ready is is_ready


def test_a_server_that_its_gateway_hides_is_known_by_its_program(connect: Connect) -> None:
    """`/running` alone, as behind a proxy that knows no other path."""
    gateway = llamaswap.gateway()
    routes: dict[str, Route] = {**gateway.routes, "/upstream/": Script.json({}, 404)}
    _, client = connect(routes)
    model = probe(client).models[0]
    assert (model.engine, model.engine_version, model.context_tokens) == ("llama.cpp", None, 8192)
    assert model.file_path == "/models/Qwen3-8B-Q4_K_M.gguf"


def test_an_older_llama_swap_without_anything_beyond_openai(connect: Connect) -> None:
    gateway = llamaswap.gateway()
    _, client = connect({path: gateway.routes[path] for path in ("/v1/models", CHAT)})
    info = probe(client)
    assert (info.engine, info.engine_version) == ("llama-swap", None)
    assert {model.engine for model in info.models} == {None}


def test_a_gateway_that_wants_a_key(connect: Connect) -> None:
    _, client = connect({"/": refusal(401, "unauthorized: invalid or missing API key")})
    with pytest.raises(ServerError, match="API key"):
        probe(client)


@pytest.mark.parametrize("key", SERVERS)
@pytest.mark.parametrize("has_headers", [True, False])
def test_every_engine_is_recognised_behind_llama_swap(key: str, has_headers: bool, connect: Connect) -> None:
    server = SERVERS[key]()
    routes = server.routes if has_headers else without_server_headers(server.routes)
    gateway = Gateway({"m": Backend("./start.sh", routes, llamaswap.llamacpp_backend().chat, READY)})
    _, client = connect(gateway.routes, pace=0.01)
    info = probe(client)
    assert info.engine == "llama-swap"
    is_known = can_stand_behind(find(key)) and (has_headers or server.is_known_without_headers)
    assert info.models[0].engine == (key if is_known else None)
    assert gateway.loads == []


@pytest.mark.parametrize(
    "key", [key for key in SERVERS if can_stand_behind(find(key)) and CHAT in SERVERS[key]().routes]
)
def test_through_llama_swap_every_engine_is_asked_and_read_as_without_it(key: str, connect: Connect) -> None:
    routes, own_routes = ({**server.routes, **server.live} for server in (SERVERS[key](), SERVERS[key]()))
    gateway = Gateway({"m": Backend("./start.sh", own_routes, llamaswap.llamacpp_backend().chat, READY)})
    asked: list[dict[str, Any]] = []
    traces: list[Trace] = []
    for served in (routes, {**gateway.routes, CHAT: own_routes[CHAT]}):
        replay, client = connect(served, pace=0.01)
        info = probe(client)
        aim(client, info.models[0] if info.models else None)
        request = CompletionRequest("hello", 8, "m", nonce="0123abcd", capabilities=info.capabilities)
        traces.append(find(info.engine).stream_completion(client, request))
        asked.append([sent.json() for sent in replay.requests if sent.method == "POST" and b"hello" in sent.body][-1])
    direct, behind = traces
    assert asked[0] == asked[1]
    assert (behind.status, behind.error, behind.cache_defeat) == (direct.status, direct.error, direct.cache_defeat)
    assert (behind.server, behind.output_tokens, behind.cached_tokens) == (
        direct.server, direct.output_tokens, direct.cached_tokens,
    )  # fmt: skip


def without_server_headers(routes: Mapping[str, Route]) -> dict[str, Route]:
    return {path: without_server_header(route) for path, route in routes.items()}


# --- command lines ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("llama-server -m a.gguf", "llama.cpp"),
        ("/app/llama-server-vulkan --port 1 -m a.gguf", "llama.cpp"),
        (r"C:\llm\llama-server.exe -m a.gguf", "llama.cpp"),
        (r'"D:\my llm\llama-server.exe" -m D:\a.gguf', "llama.cpp"),
        ("docker run -p 1:1 ghcr.io/ggml-org/llama.cpp:server -m a.gguf", "llama.cpp"),
        ("python -m vllm.entrypoints.openai.api_server --model a", "vllm"),
        ("podman run docker.io/vllm/vllm-openai:v0.23.0 --model a", "vllm"),
        ("python3 -m sglang.launch_server --model-path a", "sglang"),
        ("mlx_lm.server --model a", "mlx-lm"),
        ("env A=b /usr/bin/koboldcpp --model a", "koboldcpp"),
        ("vllm-mlx serve a", "vllm-mlx"),
        ("aphrodite run a", "aphrodite"),
        ("lmdeploy serve api_server a", "lmdeploy"),
        ("./start.sh qwen", None),
        ("", None),
    ],
)
def test_the_program_of_a_command_line(command: str, key: str | None) -> None:
    engine = engine_of_command(split_command(command))
    assert (engine.key if engine is not None else None) == key


def test_the_flags_of_a_container_are_not_the_engines() -> None:
    words = split_command("docker run --name llama.cpp -t -m 8g -c 512 ghcr.io/ggml-org/llama.cpp:server -c 4096 -t 6")
    line = arguments_of(find("llama.cpp"), words)
    assert line is not None
    assert (line.context_tokens, line.settings, line.file_path) == (4096, {"threads": 6}, None)
    assert arguments_of(find("llama.cpp"), split_command("./start.sh -c 4096")) is None


def test_the_program_of_a_fork_may_have_the_name_of_what_it_was_made_from() -> None:
    words = split_command("/opt/ik_llama.cpp/build/bin/llama-server -m /m/a-IQ4_XS.gguf -ngl 99")
    line = arguments_of(find("ik_llama.cpp"), words)
    assert line is not None
    assert (line.settings, line.file_path) == ({"gpu_layers": 99}, "/m/a-IQ4_XS.gguf")
    aphrodite = arguments_of(find("aphrodite"), split_command("vllm serve a --tensor-parallel-size 2"))
    assert aphrodite is not None
    assert aphrodite.settings
    assert arguments_of(find("vllm"), split_command("aphrodite run a --tensor-parallel-size 2")) is None


@pytest.mark.parametrize(
    "words",
    [
        ["--api-key", "secret"], ["--hf-token=secret"], ["--api_key", "secret"], ["--admin-api-key", "secret"],
        ["--model-url", "https://me:secret@example.org/a.gguf"], ["--header", "Authorization: Bearer secret"],
        ["-e", "HF_TOKEN=secret"], ["--env", "MY_API_KEY=secret"], ["--x", "hf_secretsecret"],
        ["--x", "sk-secretsecret"],
        ["--lora", "ghp_secretsecret"], ["--password", "secret"], ["--auth", "me:secret"],
    ],
)  # fmt: skip
def test_a_secret_among_flags(words: list[str]) -> None:
    for line in (
        find("llama.cpp").read_arguments([*words, "--mlock"]),
        model_arguments([*words, "--mlock"], find("vllm").flags),
    ):
        assert line.settings == {"flags": "--mlock"}


def test_words_of_a_command() -> None:
    assert split_command("a \\\n  # no\n  -b 'c d'") == ["a", "-b", "c d"]
    assert split_command("a 'never closed") == []
    assert split_command("C:\\llm\\a.exe \\\n -m D:\\b.gguf") == ["C:\\llm\\a.exe", "-m", "D:\\b.gguf"]
    assert program_of(["x"], []) is None


# --- Docker Model Runner ---------------------------------------------------------------------------------------------


def test_docker_model_runner(connect: Connect) -> None:
    _, client = connect({**dockermodelrunner.server().routes}, pace=0.05)
    info = probe(client)
    smol, qwen = info.models
    assert (smol.engine, smol.is_loaded, smol.digest) == ("llama.cpp", True, dockermodelrunner.DIGEST)
    assert (smol.context_tokens, smol.settings) == (4096, {"threads": 6})
    assert (qwen.engine, qwen.is_loaded) == (None, False)
    assert "not-for-others" not in json.dumps(asdict(info))


def test_a_gguf_of_docker_is_run_by_llamacpp_even_before_it_runs(connect: Connect) -> None:
    _, client = connect({**dockermodelrunner.server().routes, "/engines/ps": Script.json([])})
    models = {model.id: model for model in probe(client).models}
    assert (models[dockermodelrunner.SMOL].engine, models[dockermodelrunner.SMOL].is_loaded) == ("llama.cpp", False)
    assert models[dockermodelrunner.QWEN].engine is None


@pytest.mark.parametrize("path", ["", "/engines", "/engines/v1", "/engines/llama.cpp/v1"])
def test_docker_model_runner_by_the_address_of_its_api(connect: Connect, path: str) -> None:
    replay, client = connect(dockermodelrunner.server().routes, path)
    info = probe(client)
    assert (info.engine, info.base_url or client.base_url) == ("docker-model-runner", replay.url)


def test_five_samples_and_counters_behind_docker(connect: Connect) -> None:
    server = dockermodelrunner.server()
    _, client = connect({**server.routes, **server.live}, pace=0.05)
    info = probe(client)
    model = aim(client, info.models[0])
    before = DOCKER.counters(client)
    traces = [ask(client, model, info) for _ in range(5)]
    assert {(trace.cache_defeat, trace.cached_tokens) for trace in traces} == {(CacheDefeat.SWITCH, 0)}
    after = DOCKER.counters(client)
    assert before is not None
    assert after is not None
    measured = {metric.name: metric.value for metric in DOCKER.server_metrics(before, after, model.id, 5)}
    assert measured["output_tokens"] == 40.0


@pytest.mark.parametrize(
    ("more", "ready", "busy"), [({}, True, False), ({"in_use": True}, True, True), ({"loading": True}, False, None)]
)
def test_the_health_of_docker(connect: Connect, more: dict[str, bool], ready: bool, busy: bool | None) -> None:
    _, client = connect({"/engines/ps": dockermodelrunner.running(**more)})
    assert (DOCKER.health(client).ready, DOCKER.health(client).busy) == (ready, busy)


# --- Lemonade --------------------------------------------------------------------------------------------------------


def test_what_runs_a_model_of_lemonade(connect: Connect) -> None:
    both = lemonade.health(lemonade.QWEN_LOADED, lemonade.GEMMA_LOADED)
    _, client = connect({**lemonade.server().routes, "/api/v1/health": both})
    info = probe(client)
    models = {model.id: model for model in info.models}
    qwen, gemma, cloud = models[lemonade.QWEN], models[lemonade.GEMMA], models["fireworks.kimi-k2"]
    assert (qwen.engine, qwen.is_loaded, qwen.context_tokens, qwen.quantization) == ("llama.cpp", True, 8192, "Q4_1")
    assert qwen.settings == {
        "devices": "gpu", "flags": "--no-mmap", "gpu_layers": 99, "recipe": "llamacpp (vulkan)",
    }  # fmt: skip
    assert qwen.file_path == "/srv/hub/models--q/Qwen3-8B-Q4_1.gguf"
    assert (gemma.engine, gemma.is_loaded, gemma.settings) == (None, True, {"recipe": "flm", "devices": "npu"})
    assert (cloud.runs_on, info.models[-1]) == ("fireworks", cloud)
    assert "not-for-others" not in json.dumps(asdict(info))


def test_lemonade_without_its_health_is_no_lm_studio(connect: Connect) -> None:
    routes = {path: route for path, route in lemonade.server().routes.items() if path != "/api/v1/health"}
    _, client = connect(routes)
    assert probe(client).engine == "lemonade"


@pytest.mark.parametrize("is_busy", [False, True])
def test_the_health_of_lemonade(connect: Connect, is_busy: bool) -> None:
    _, client = connect({"/api/v1/health": lemonade.health({**lemonade.GEMMA_LOADED, "is_busy": is_busy})})
    assert LEMONADE.health(client).busy is is_busy


@pytest.mark.parametrize(("requests", "decode_ms"), [(4, 160.0), (5, None), (3, None)])
def test_lemonades_own_statistics_of_one_request(connect: Connect, requests: int, decode_ms: float | None) -> None:
    """Of what states no times of its own; not where another request came in between."""
    plain = lemonade.flm_answer(Turn(prompt_tokens=5, output_tokens=8))
    rows = [(ms, row) for ms, row in plain.rows if b"decoding_duration" not in row]
    stats: dict[str, Any] = {"time_to_first_token": 0.2, "tokens_per_second": 50.0, "output_tokens": 8}

    def chat(_: object) -> Script:
        routes["/api/v1/stats"] = Script.json({**stats, "request_count_total": requests})
        return replace(plain, rows=rows)

    routes: dict[str, Route] = {**lemonade.server().routes, CHAT: chat}
    _, client = connect(routes, pace=0.05)
    trace = ask(client, ModelInfo(lemonade.GEMMA, "g"), probe(client))
    assert trace.status is Status.OK
    assert (trace.server.decode_ms if trace.server else None) == decode_ms


def test_lemonade_counts_by_model(connect: Connect) -> None:
    def metrics(requests: int) -> Script:
        label = f'{{device="npu",model_name="{lemonade.GEMMA}",recipe="flm"}}'
        other_label = '{device="gpu",model_name="other",recipe="llamacpp"}'
        return Script.text(
            f"lemonade_model_requests_total{label} {requests}\n"
            f"lemonade_model_requests_total{other_label} {9 * requests}\n"
            f"lemonade_model_prompt_tokens_total{label} {100 * requests}\n"
            f"lemonade_model_output_tokens_total{label} {10 * requests}\n"
        )

    _, client = connect({"/metrics": metrics(1)})
    _, later = connect({"/metrics": metrics(3)})
    before, after = LEMONADE.counters(client), LEMONADE.counters(later)
    assert before is not None
    assert after is not None
    measured = {metric.name: metric.value for metric in LEMONADE.server_metrics(before, after, lemonade.GEMMA, 2)}
    assert (measured["requests"], measured["prompt_tokens"], measured["output_tokens"]) == (2.0, 200.0, 20.0)


# --- Jan, llamafile, ramalama ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("owner", "engine"), [("llama.cpp", "llama.cpp"), ("user", "llama.cpp"), ("mlx", None)])
def test_the_engine_of_a_model_of_jan(connect: Connect, owner: str, engine: str | None) -> None:
    listed = Script.json({"object": "list", "data": [{"id": "m", "object": "model", "owned_by": owner}]})
    server = jan.server()
    _, client = connect({**server.routes, **server.live, "/v1/models": listed}, pace=0.05)
    info = probe(client)
    model = aim(client, info.models[0])
    assert (info.engine, model.engine) == ("jan", engine)
    trace = ask(client, model, info)
    assert trace.cache_defeat is (CacheDefeat.SWITCH if engine else CacheDefeat.NONCE)
    assert jan.server().models[1][0] == "gpt-oss-120b"


def test_a_provider_of_jan_is_never_the_default(connect: Connect) -> None:
    _, client = connect(jan.server().routes)
    info = probe(client)
    assert [model.runs_on for model in info.models] == [None, "remote"]
    assert info.model(None) is info.models[0]


def test_progress_of_llamafile_is_no_role_chunk(connect: Connect) -> None:
    _, client = connect(llamafile.server().routes, pace=0.05)
    kinds = [event.kind for event in ask(client, ModelInfo("m", "m"), probe(client)).events]
    assert kinds[:4] == [Kind.PROGRESS, Kind.PROGRESS, Kind.ROLE, Kind.ANSWER]


@pytest.mark.parametrize("has_build", [False, True], ids=["2024", "today"])
def test_other_servers_that_are_llamacpp(connect: Connect, has_build: bool) -> None:
    """`ramalama serve` and newer llamafiles start llama-server as it is; an older llamafile is one of 2024."""
    props = {"user_name": "", "default_generation_settings": {"n_ctx": 8192}, "total_slots": 1}
    if has_build:
        props |= {"build_info": "b10068-abc", "model_path": "/mnt/models/smollm-135m"}
    entry = {"id": "library/smollm:135m", "object": "model", "owned_by": "llamacpp"}
    routes = {
        "/props": Script.json(props),
        "/v1/models": Script.json({"object": "list", "data": [entry]}),
        CHAT: capture("llama.cpp", "chat_stream_usage_cache_prompt_false"),
    }
    _, client = connect({path: with_headers({"server": "llama.cpp"}, route) for path, route in routes.items()})
    info = probe(client)
    assert (info.engine, info.context_tokens, info.models[0].name) == ("llama.cpp", 8192, "smollm:135m")
