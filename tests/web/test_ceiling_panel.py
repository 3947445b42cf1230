"""A run's page shows its ceiling, what was reached of it, and the next step where there is none."""

import re
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from sqlmodel import select

from app.core.samples import Workload
from app.db import machines, measurements, runs, samples
from app.db.database import Database
from app.db.tables import Config, Measurement, Model, Run
from app.hardware.host import this_host
from app.results import hardware
from tests.seed import made_sample
from tests.web.notebook import add_run, read, text_of


def test_ceilings_with_their_arithmetic_and_sources(client: TestClient, run: str) -> None:
    text = read(client, run)
    assert re.search(r"Decode ceiling ([\d.]+) tok/s [\d.]+ % reached, MBU \1 tok/s = 256 GB/s / [\d.]+ GB", text)
    assert re.search(r"[\d.]+ GB = [\d.]+ GB weights \+ [\d.]+ MB KV cache", text)
    assert re.search(r"Prefill ceiling [\d,]+ tok/s .*[Mm]inimum TTFT [\d.]+ ms; it was [\d.]+ ms", text)
    assert "256 GB/s from the catalogue" in text
    assert "30.5 B parameters, 8.50 bits each from its config.json" in text
    assert "the type of the KV cache is not stated, so f16 is counted" in text


def test_without_a_bandwidth_the_machine_is_the_next_step(client: TestClient, database: Database, run: str) -> None:
    with database.write() as session:
        config = session.get_one(Config, 1)
        config.settings = {"cards": 0}
        session.add(config)
    page = client.get(f"/runs/{run}").text
    assert "No ceiling.</strong> The bandwidth of the machine&#39;s memory is unknown. Measure it, or enter it." in page
    assert 'href="/machines/strix-halo">Open strix-halo</a>' in page


def test_a_missing_bandwidth_of_this_machine_is_measured_beside_the_message(
    client: TestClient, database: Database, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    button = 'hx-post="/machines/strix-halo/bandwidth"'
    with database.write() as session:
        config = session.get_one(Config, 1)
        config.settings = {"cards": 0}
        session.add(config)
    assert button not in client.get(f"/runs/{run}").text
    with database.write() as session:
        machines.edit_machine(session, "strix-halo", hostname=this_host().name)
    for path in (f"/runs/{run}", "/machines/strix-halo", "/ceiling?device=rtx+3090&total=70&bits=Q8_0"):
        assert button in client.get(path).text, path
    monkeypatch.setattr("app.measure.workers.start", lambda *_command: None)
    started = client.post("/machines/strix-halo/bandwidth", headers={"hx-request": "true"})
    assert 'hx-get="/machines/strix-halo/bandwidth" hx-trigger="every 1s"' in started.text
    assert "<html" not in started.text


def test_without_a_geometry_the_models_page_is_the_next_step(client: TestClient, database: Database, run: str) -> None:
    with database.write() as session:
        model = session.get_one(Model, 1)
        model.geometry = {"parameters": 30}
        session.add(model)
    text = read(client, run)
    assert "No ceiling. The bytes the model reads per token are unknown" in text
    assert "Add the model's details" in text


def test_a_missing_peak_costs_only_the_prefill_side(client: TestClient, database: Database, run: str) -> None:
    with database.write() as session:
        machine = machines.machine(session, "strix-halo")
        cards = [{**card, "compute_flops_per_s": None} for card in machine.accelerators]
        machines.edit_machine(session, "strix-halo", accelerators=cards)
    text = read(client, run)
    assert "Decode ceiling" in text
    assert "The peak compute of Radeon 8060S is unknown, so there is no prefill ceiling and no TTFT floor." in text


def test_more_than_all_is_shown_and_explained(client: TestClient, database: Database, run: str) -> None:
    with database.write() as session:
        machine = machines.machine(session, "strix-halo")
        cards = [{**card, "bandwidth_bytes_per_s": 50e9} for card in machine.accelerators]
        machines.edit_machine(session, "strix-halo", accelerators=cards)
    text = read(client, run)
    share = re.search(r"([\d.]+) % reached, MBU", text)
    assert share is not None
    assert float(share[1]) > 100
    assert "Faster than its ceiling: one of these assumptions is wrong" in text
    assert "the bandwidth assumed for this machine is too low" in text


def test_where_the_time_goes_and_what_would_it_take(client: TestClient, run: str) -> None:
    text = read(client, run)
    assert re.search(r"One token's [\d.]+ ms .* Weights [\d.]+ ms .* KV cache [\d.]+ ms .* Remaining loss", text)
    assert re.search(r"Q6_K weights [\d.]+ [\d.]+ to [\d.]+", text)
    assert "Decode against context The ceiling is" in text


def test_lists_show_the_share_of_the_ceiling(client: TestClient, run: str) -> None:
    page = client.get("/machines/strix-halo").text
    assert "of ceiling" in page
    assert re.search(rf'href="/runs/{run}#ceiling-title" title="[\d.]+ tok/s = 256 GB/s / [\d.]+ GB"', page)
    assert '"role":"roof"' in client.get("/history?ceilings=all").text


def test_without_any_ceiling_lists_have_no_column_for_it(client: TestClient, database: Database, run: str) -> None:
    with database.write() as session:
        model = session.get_one(Model, 1)
        model.geometry = {}
        session.add(model)
    assert "of ceiling" not in client.get("/machines/strix-halo").text


# --- what a run was measured on --------------------------------------------------------------------------------------


def freeze(database: Database, run: str) -> None:
    with database.write() as session:
        hardware.refreeze(session, runs.run(session, run))


def change_bandwidth(database: Database, value: float) -> None:
    with database.write() as session:
        machine = machines.machine(session, "strix-halo")
        cards = [{**card, "bandwidth_bytes_per_s": value} for card in machine.accelerators]
        machines.edit_machine(session, "strix-halo", accelerators=cards)


def test_an_old_result_stays_until_a_button_is_pressed(client: TestClient, database: Database, run: str) -> None:
    freeze(database, run)
    assert "Use the machine's current figures" not in read(client, run)
    change_bandwidth(database, 512e9)
    text = read(client, run)
    assert "tok/s = 256 GB/s" in text
    assert "they have changed since" in text
    answer = client.post(f"/runs/{run}/hardware", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/runs/{run}#ceiling-title")
    text = read(client, run)
    assert "tok/s = 512 GB/s" in text
    assert "Use the machine's current figures" not in text


def test_a_run_of_older_versions_says_that_it_stands_on_today(client: TestClient, run: str) -> None:
    text = read(client, run)
    assert "were not recorded with this run, so the ceiling uses their current figures" in text
    assert "Use the machine's current figures" in text


def test_without_a_ceiling_the_button_is_there_too(client: TestClient, database: Database, run: str) -> None:
    with database.write() as session:
        machines.edit_machine(session, "strix-halo", accelerators=[])
    freeze(database, run)
    with database.write() as session:
        card = {"name": "Radeon 8060S", "count": 1, "bandwidth_bytes_per_s": 256e9, "source": "typed"}
        machines.edit_machine(session, "strix-halo", accelerators=[card])
    assert "No ceiling." in read(client, run)
    client.post(f"/runs/{run}/hardware")
    assert "Decode ceiling" in read(client, run)


def test_a_change_of_hardware_is_what_changed(client: TestClient, database: Database, run: str) -> None:
    freeze(database, run)
    with database.write() as session:
        first = runs.run(session, run)
        assert first.started_at is not None
        values = {**first.model_dump(exclude={"id", "public_id"}), "started_at": first.started_at + timedelta(days=1)}
        values["hardware"] = [
            {**device, "count": 2} if device["kind"] != "ram" else device for device in first.hardware
        ]
        later = Run(**values)
        session.add(later)
        session.flush()
        assert later.id is not None
        for sample in samples.samples_of(session, first.id or 0):
            samples.add_sample(session, later.id, sample, values["started_at"])
        measurements.derive(session, later.id)
    text = read(client, later.public_id)
    assert re.search(r"What changed: \w+ Radeon 8060S → 2 × Radeon 8060S", text)
    assert "Nothing yet: this is the first configuration" in read(client, run)
    history = client.get("/history").text
    assert "Radeon 8060S → 2 × Radeon 8060S on strix-halo" in history


# --- machines and the overview ---------------------------------------------------------------------------------------


def test_a_machine_says_what_each_device_can_do(client: TestClient, database: Database, run: str) -> None:
    text = text_of(client.get("/machines/strix-halo").text)
    assert "Radeon 8060S 256 GB/s from the catalogue" in text
    assert "Critical intensity 230 tokens at once = 59.0 TFLOP/s / 256 GB/s" in text
    assert re.search(r"Qwen3-30B-A3B Q8_0 [\d.]+ tok/s = 256 GB/s / [\d.]+ GB [\d.]+ [\d.]+ [\d.]+ Worse than ", text)
    assert "published results for mixture-of-experts models on AMD APUs such as Strix Halo" in text
    assert "Memory Its bandwidth is unknown, so there is no ceiling." in text
    assert f'href="/runs/{run}?' in client.get("/machines/strix-halo").text


def test_the_best_of_a_model_is_shown_with_its_run(client: TestClient, database: Database, run: str) -> None:
    with database.write() as session:
        measured = session.exec(select(Measurement).where(Measurement.metric == "decode_tokens_per_s")).first()
        assert measured is not None
        best = (measured.value or 0) + 20
    faster = add_run(database, [made_sample(n, Workload(512, 128), 500.0, best) for n in range(3)])
    add_run(database, [made_sample(n, Workload(512, 128), 500.0, 5.0) for n in range(3)])
    page = client.get("/machines/strix-halo").text
    panel = page.partition('id="ceiling-title"')[2].partition("<h2>Servers</h2>")[0]
    assert panel.count("/runs/") == 1
    assert f'href="/runs/{faster}?' in panel
