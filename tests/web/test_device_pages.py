import pytest
from starlette.testclient import TestClient

from app.db import devices, machines
from app.db.database import Database

FORM = {"name": "Homemade X1", "kind": "gpu", "memory": "48", "bandwidth": "123.4", "compute": "10", "fastest": "20"}


def test_the_catalogue_is_searched(client: TestClient) -> None:
    page = client.get("/machines/devices?q=rtx+3090").text
    assert "GeForce RTX 3090 Ti" in page
    assert "Tesla P40" not in page
    assert "No device has this name" in client.get("/machines/devices?q=voodoo").text


def test_a_device_is_added_used_and_removed(client: TestClient, database: Database) -> None:
    assert client.post("/machines/devices", data=FORM, follow_redirects=False).status_code == 303
    page = client.get("/machines/devices?q=homemade").text
    assert "yours" in page
    assert '<option value="Homemade X1">' in client.get("/machines/new").text
    client.post("/machines", data={"name": "box", "accelerator_name": "homemade x1"})
    with database.read() as session:
        (card,) = machines.machine(session, "box").accelerators
    assert (card["bandwidth_bytes_per_s"], card["source"], card["note"]) == (123.4e9, "catalogue", "your own figure")
    client.post("/machines/devices/remove", data={"name": "Homemade X1"})
    assert "Homemade X1" not in client.get("/machines/devices").text
    assert client.post("/machines/devices/remove", data={"name": "Homemade X1"}).status_code == 404


def test_a_built_in_device_is_corrected_and_comes_back(client: TestClient, database: Database) -> None:
    form = client.get("/machines/devices?correct=GeForce+RTX+3090").text
    assert 'value="936"' in form
    corrected = FORM | {"name": "GeForce RTX 3090", "bandwidth": "999", "source": "my own eyes"}
    client.post("/machines/devices", data=corrected)
    client.post("/machines/devices", data=corrected | {"bandwidth": "998"})
    for name, bandwidth in (("RTX 3090", 998e9), ("GeForce RTX 3090", 998e9), ("RTX 3090 Ti", 1008e9)):
        with database.read() as session:
            device = devices.load_catalogue(session).find(name).device
        assert device is not None
        assert device.bandwidth_bytes_per_s == bandwidth
    client.post("/machines/devices/remove", data={"name": "GeForce RTX 3090"})
    with database.read() as session:
        device = devices.load_catalogue(session).find("RTX 3090").device
    assert device is not None
    assert (device.bandwidth_bytes_per_s, device.is_own) == (936e9, False)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"name": ""}, "The name is missing."),
        ({"bandwidth": ""}, "The bandwidth is missing"),
        ({"bandwidth": "fast"}, "The bandwidth must be a number"),
        ({"kind": "tpu"}, "The kind must be one of gpu, apu, ram."),
        ({"fastest": "5"}, "The fastest compute is below that of FP16"),
    ],
)
def test_what_makes_no_sense_is_one_sentence_and_nothing_typed_is_lost(
    client: TestClient, database: Database, wrong: dict[str, str], sentence: str
) -> None:
    answer = client.post("/machines/devices", data=FORM | {"source": "a label"} | wrong)
    assert answer.status_code == 422
    assert sentence in answer.text
    assert 'value="a label"' in answer.text
    with database.read() as session:
        assert not devices.list_devices(session)
