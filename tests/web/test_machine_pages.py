import pytest
from starlette.testclient import TestClient

from app.db import Database
from app.document import run_document
from app.hardware import this_host
from app.store import machines
from tests.seed import seed

FORM = {
    "name": "Strix Halo",
    "kind": "mini PC",
    "ram": "128",
    "ram_bandwidth": "256",
    "accelerator_name": ["Radeon 8060S", ""],
    "accelerator_count": ["2", ""],
    "accelerator_memory": ["96", ""],
    "accelerator_bandwidth": ["", ""],
    "accelerator_compute": ["59.4", ""],
}


def test_a_machine_is_added_shown_and_edited(client: TestClient, database: Database) -> None:
    added = client.post("/machines", data=FORM, follow_redirects=False)
    assert (added.status_code, added.headers["location"]) == (303, "/machines/strix-halo")
    with database.read() as session:
        machine = machines.machine(session, "strix-halo")
    assert (machine.ram_bytes, machine.ram_bandwidth_bytes_per_s) == (128_000_000_000, 256e9)
    assert machine.ram_bandwidth_source == "typed"
    assert machine.accelerators == [
        {
            "name": "Radeon 8060S",
            "count": 2,
            "memory_bytes": 96_000_000_000,
            "bandwidth_bytes_per_s": None,
            "compute_flops_per_s": 59.4e12,
            "source": "typed",
        }
    ]
    assert "2 × Radeon 8060S" in client.get("/machines/strix-halo").text
    assert 'value="59.4"' in client.get("/machines/strix-halo/edit").text
    client.post("/machines/strix-halo", data=FORM | {"name": "Halo", "ram": ""})
    with database.read() as session:  # its address outlives its name
        machine = machines.machine(session, "strix-halo")
    assert (machine.name, machine.ram_bytes) == ("Halo", None)


def test_a_measured_bandwidth_stays_measured_when_something_else_is_edited(
    client: TestClient, database: Database
) -> None:
    with database.write() as session:
        machines.add_machine(
            session, "box", ram_bandwidth_bytes_per_s=51_234_567_890.5, ram_bandwidth_source="measured"
        )
    form = {"name": "box", "ram_bandwidth": "51.2346", "notes": "new"}
    client.post("/machines/box", data=form)
    with database.read() as session:
        machine = machines.machine(session, "box")
    assert (machine.ram_bandwidth_bytes_per_s, machine.ram_bandwidth_source) == (51_234_567_890.5, "measured")


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"name": " "}, "The name is missing."),
        ({"ram": "lots"}, "Memory must be a number, not &#39;lots&#39;."),
        ({"ram": "-1"}, "Memory must be more than zero and not absurdly large."),
        ({"ram": "nan"}, "Memory must be a number, not &#39;nan&#39;."),
        ({"ram": "1e13"}, "Memory must be more than zero and not absurdly large."),
        ({"ram": "936,2"}, "Memory must be a number (with a point for decimals), not &#39;936,2&#39;."),
        ({"accelerator_count": ["many", ""]}, "How many of Radeon 8060S must be a whole number"),
        ({"accelerator_count": ["0", ""]}, "must be between 1 and 1,024"),
        ({"accelerator_name": ["", ""]}, "An accelerator needs a name."),
        ({"kind": "x" * 41}, "The kind is longer than 40 characters."),
    ],
)
def test_what_makes_no_sense_is_one_sentence_and_nothing_typed_is_lost(
    client: TestClient, database: Database, wrong: dict[str, object], sentence: str
) -> None:
    answer = client.post("/machines", data=FORM | wrong | {"notes": "typed with care"})
    assert answer.status_code == 422
    assert sentence in answer.text
    assert "typed with care" in answer.text
    with database.read() as session:
        assert not machines.list_machines(session)


def test_this_machine_is_filled_in(client: TestClient) -> None:
    page = client.get("/machines/new?here=true").text
    assert f'value="{this_host().name}"' in page


def test_an_archived_machine_leaves_the_lists_and_keeps_its_runs(client: TestClient, database: Database) -> None:
    with database.write() as session:
        public_id = seed(session, runs=4, configs_used=1, detailed=1)[-1]
        slug = run_document(session, public_id)["run"]["machine"]["slug"]
    assert public_id in client.get("/").text
    client.post(f"/machines/{slug}/archive")
    assert public_id not in client.get("/").text
    assert client.get(f"/runs/{public_id}").status_code == 200
    assert client.get(f"/api/v1/runs/{public_id}").status_code == 200
    assert public_id in client.get("/runs").text
    assert "Archived" in client.get(f"/machines/{slug}").text
    client.post(f"/machines/{slug}/restore")
    assert public_id in client.get("/").text


def test_an_unknown_machine_is_a_sentence(client: TestClient) -> None:
    for answer in (client.get("/machines/nonesuch"), client.post("/machines/nonesuch/archive")):
        assert answer.status_code == 404
        assert "There is no machine called" in answer.text
