"""The whole loop against a second real server of odd shape."""

from collections.abc import Iterator

import pytest

from app import engines
from app.core.samples import TOKEN_KINDS, CacheDefeat, CountSource, Kind, Status
from app.core.settings import Settings
from app.db import runs
from app.db.database import Database
from app.engines.base import CompletionRequest
from app.measure.runner import Runner
from app.schemas.run_document import run_document
from tests.mlx_server import mlx_server
from tests.runner.conftest import add_server
from tests.runner.listeners import silent
from tests.web.notebook import pages

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with mlx_server(tmp_path_factory.mktemp("mlx")) as started:
        yield started


def test_probe_and_one_request(url: str) -> None:
    with engines.open_client(url, None, Settings()) as client:
        facts = engines.probe(client)
        assert facts.engine == "mlx-lm"
        assert [model.name for model in facts.models] == ["tiny"]
        engine = engines.find(facts.engine)
        assert engine.health(client).ready
        prompt, model = "the sea is wide and " * 40, facts.models[0].id
        trace = engine.stream_completion(
            client, CompletionRequest(prompt, 16, model, nonce="0123abcd", capabilities=facts.capabilities)
        )
    assert (trace.status, trace.error) == (Status.OK, None)
    assert (trace.output_tokens, trace.count_source, trace.finish_reason) == (16, CountSource.USAGE, "length")
    assert trace.cache_defeat is CacheDefeat.NONCE
    assert trace.prompt_tokens is not None
    assert trace.prompt_tokens > 100
    first = next(event.at_ms for event in trace.events if event.kind in TOKEN_KINDS)
    # keep-alives while the prompt is processed start no clock
    assert all(event.at_ms <= first for event in trace.events if event.kind is Kind.COMMENT)


def test_from_a_run_to_its_page(
    url: str, database: Database, settings: Settings, runner: Runner, short_suite: str
) -> None:
    slug = add_server(database, url, "mlx-lm")
    public_id = runner.perform(slug, short_suite, silent)
    with database.read() as session:
        document = run_document(session, public_id)
        assert runs.run(session, public_id).status == "done"
    assert document["run"]["config"]["engine"] == "mlx-lm"
    assert [sample["warmup"] for sample in document["samples"]] == [True, False, False, False]
    assert {sample["status"] for sample in document["samples"]} == {"ok"}
    (point,) = document["points"]
    values = {(metric["key"], metric["source"]): metric["value"] for metric in point["metrics"]}
    assert values["ttft_ms", "client"] > 0
    assert values["prefill_tokens_per_s", "client"] > 0
    assert values["e2e_ms", "client"] > values["ttft_ms", "client"]
    with pages(settings) as client:
        page = client.get(f"/runs/{public_id}")
    assert page.status_code == 200
    assert "MLX-LM" in page.text
