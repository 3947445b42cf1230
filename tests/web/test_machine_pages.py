import re
from dataclasses import asdict, replace
from html import unescape

import pytest
from starlette.testclient import TestClient

from app.db import bandwidth, machines
from app.db.database import Database
from app.hardware.catalogue import built_in
from app.hardware.host import this_host
from app.hardware.profile import Accelerator, Profile, Ram, UnknownItem
from app.schemas.run_document import run_document
from tests.hardware.readings import CALM
from tests.seed import seed

FORM = {
    "name": "Strix Halo",
    "kind": "mini PC",
    "ram": "128",
    "ram_bandwidth": "256",
    "accelerator_name": ["My own card", ""],
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
            "name": "My own card",
            "count": 2,
            "memory_bytes": 96_000_000_000,
            "bandwidth_bytes_per_s": None,
            "compute_flops_per_s": 59.4e12,
            "fastest_flops_per_s": None,
            "llc_bytes": None,
            "source": "typed",
            "note": "",
        }
    ]
    assert "2 × My own card" in client.get("/machines/strix-halo").text
    assert 'value="59.4"' in client.get("/machines/strix-halo/edit").text
    client.post("/machines/strix-halo", data=FORM | {"name": "Halo", "ram": ""})
    with database.read() as session:  # its address outlives its name
        machine = machines.machine(session, "strix-halo")
    assert (machine.name, machine.ram_bytes) == ("Halo", None)


def test_the_peak_of_a_processor_is_typed_kept_and_taken_back(client: TestClient, database: Database) -> None:
    client.post("/machines", data=FORM | {"cpu_peak": "1.25"})
    assert "1.25 TFLOP/s, typed" in client.get("/machines/strix-halo").text
    assert ("cpu_peak", "1.25") in fields_of(client.get("/machines/strix-halo/edit").text)
    client.post("/machines/strix-halo", data=FORM | {"cpu_peak": ""})
    with database.read() as session:
        assert machines.machine(session, "strix-halo").cpu_flops_per_s is None


def test_a_figure_keeps_its_source_until_another_one_is_typed(client: TestClient, database: Database) -> None:
    form = {"name": "box", "ram_bandwidth": "51.2", "ram_bandwidth_source": "sensor", "ram_bandwidth_sourced": "51.2"}
    client.post("/machines", data=form)
    for typed, expected in (("51.2", (51.2e9, "sensor")), ("48", (48e9, "typed")), ("", (None, None))):
        client.post("/machines/box", data=form | {"ram_bandwidth": typed})
        with database.read() as session:
            machine = machines.machine(session, "box")
        assert (machine.ram_bandwidth_bytes_per_s, machine.ram_bandwidth_source) == expected


def test_speed_and_width_make_the_bandwidth_of_the_memory(client: TestClient, database: Database) -> None:
    client.post("/machines", data={"name": "box", "ram_speed": "DDR5-6000", "ram_bus_bits": "128"})
    with database.read() as session:
        machine = machines.machine(session, "box")
    assert (machine.ram_kind, machine.ram_data_rate_mt_per_s, machine.ram_bus_bits) == ("DDR5", 6000, 128)
    assert (machine.ram_bandwidth_bytes_per_s, machine.ram_bandwidth_source) == (96e9, "typed")
    page = client.get("/machines/box").text
    assert "Memory DDR5-6000" in page
    assert "6,000 MT/s × 16 B" in page
    # the form leaves to arithmetic what is arithmetic: another speed makes another bandwidth
    form = client.get("/machines/box/edit").text
    assert 'name="ram_bandwidth" type="text" value=""' in form
    assert 'name="ram_speed" type="text" value="DDR5-6000"' in form


@pytest.mark.parametrize("name", ["RTX 3090", "NVIDIA GeForce RTX 3090"])
def test_a_name_that_the_catalogue_knows_fills_what_was_left_empty(
    client: TestClient, database: Database, name: str
) -> None:
    client.post("/machines", data={"name": "box", "accelerator_name": name, "accelerator_count": "2"})
    with database.read() as session:
        (card,) = machines.machine(session, "box").accelerators
    assert (card["name"], card["count"]) == (name, 2)
    assert card["memory_bytes"] == pytest.approx(24 << 30, rel=1e-5)
    assert (card["bandwidth_bytes_per_s"], card["source"]) == (936e9, "catalogue")
    assert card["compute_flops_per_s"] < card["fastest_flops_per_s"]
    assert card["note"]
    assert card["note"] in client.get("/machines/box").text


@pytest.mark.parametrize("source", ["measured", "nonsense", "sensor" * 1000, "typed"])
def test_a_form_cannot_claim_what_is_no_source_of_forms(client: TestClient, database: Database, source: str) -> None:
    form = {"ram_bandwidth": "5", "ram_bandwidth_sourced": "5", "ram_bandwidth_source": source}
    card = {"accelerator_name": "My own card", "accelerator_bandwidth": "7", "accelerator_sourced": "7;;;;;;"}
    client.post("/machines", data={"name": "box", **form, **card, "accelerator_source": source})
    with database.read() as session:
        machine = machines.machine(session, "box")
    assert (machine.ram_bandwidth_source, machine.accelerators[0]["source"]) == ("typed", "typed")
    for path in ("/machines/box", "/machines/box/edit", "/ceiling?device=My+own+card+on+box&total=8&bits=4.5"):
        assert client.get(path).status_code == 200


CARD = {"accelerator_name": "RTX 3090", "accelerator_count": "2"}


@pytest.mark.parametrize(
    "typed",
    [
        {"accelerator_memory": "48"},
        {"accelerator_bandwidth": "900"},
        {"accelerator_compute": "60"},
        {"accelerator_fastest": "130"},
        {"accelerator_memory": "48", "accelerator_compute": "60"},
    ],
)
@pytest.mark.parametrize("is_typed_at_once", [True, False])
def test_what_a_person_typed_is_never_overwritten_by_the_catalogue(
    client: TestClient, database: Database, typed: dict[str, str], is_typed_at_once: bool
) -> None:
    first = CARD | typed if is_typed_at_once else CARD
    shown = as_form(fields_of(client.post("/machines/accelerators", data={"name": "box", **first}).text))
    shown |= {key: [value, ""] for key, value in typed.items()}
    shown = as_form(fields_of(client.post("/machines/accelerators", data=shown).text))
    client.post("/machines", data=shown)
    client.post("/machines/box", data=as_form(fields_of(client.get("/machines/box/edit").text)))
    with database.read() as session:
        (card,) = machines.machine(session, "box").accelerators
    (catalogue_device,) = [device for device in built_in().devices if device.name == "GeForce RTX 3090"]
    assert card == asdict(catalogue_device.accelerator()) | {
        "name": "RTX 3090", "count": 2,
        **{key: float(typed[field]) * factor for key, (field, factor) in COLUMNS.items() if field in typed},
        **({"source": "typed", "note": ""} if "accelerator_bandwidth" in typed else {}),
    }  # fmt: skip
    shown = as_form(fields_of(client.get("/machines/box/edit").text))
    shown["accelerator_name"][0] = "A name nobody knows"
    client.post("/machines/box", data=shown)
    with database.read() as session:
        (renamed,) = machines.machine(session, "box").accelerators
    assert renamed == card | {"name": "A name nobody knows", "source": "typed", "note": ""}


COLUMNS = {
    "memory_bytes": ("accelerator_memory", 1e9),
    "bandwidth_bytes_per_s": ("accelerator_bandwidth", 1e9),
    "compute_flops_per_s": ("accelerator_compute", 1e12),
    "fastest_flops_per_s": ("accelerator_fastest", 1e12),
}


def test_a_figure_that_was_emptied_stays_empty(client: TestClient, database: Database) -> None:
    client.post("/machines", data={"name": "box", **CARD})
    shown = as_form(fields_of(client.get("/machines/box/edit").text))
    shown["accelerator_memory"][0] = ""
    client.post("/machines/box", data=shown)
    with database.read() as session:
        (card,) = machines.machine(session, "box").accelerators
    assert (card["memory_bytes"], card["bandwidth_bytes_per_s"], card["source"]) == (None, 936e9, "catalogue")


def test_typed_memory_tells_variants_apart(client: TestClient, database: Database) -> None:
    client.post("/machines", data={"name": "box", "accelerator_name": "RTX 4060 Ti", "accelerator_memory": "16"})
    with database.read() as session:
        (card,) = machines.machine(session, "box").accelerators
    assert (card["memory_bytes"], card["bandwidth_bytes_per_s"], card["source"]) == (16e9, 288e9, "catalogue")


def rows_of(html: str) -> list[tuple[str, str]]:
    """Name and bandwidth of each row of the form."""
    names = re.findall(r'name="accelerator_name" value="([^"]*)"', html)
    bandwidths = re.findall(r'name="accelerator_bandwidth" value="([^"]*)"', html)
    return list(zip(names, bandwidths, strict=True))


@pytest.mark.parametrize("partial", [True, False])
def test_rows_of_accelerators_come_and_go_and_nothing_is_stored(
    client: TestClient, database: Database, partial: bool
) -> None:
    def change(**more: object) -> str:
        headers = {"hx-request": "true"} if partial else {}
        form = {"name": "box", "accelerator_name": ["RTX 3090", "My own", ""], "accelerator_bandwidth": ["", "5", ""]}
        answer = client.post("/machines/accelerators", data=form | more, headers=headers)
        assert answer.status_code == 200
        assert ("<html" in answer.text) != partial
        return answer.text

    assert rows_of(change()) == [("RTX 3090", "936"), ("My own", "5"), ("", "")]
    assert rows_of(change(remove="1")) == [("My own", "5"), ("", "")]
    another = change(
        accelerator_name=["Tesla P40"],
        accelerator_bandwidth=["936"],
        accelerator_source=["catalogue"],
        accelerator_sourced=["936"],
    )
    assert rows_of(another) == [("Tesla P40", "347.1"), ("", "")]
    assert "GeForce RTX 4060 Ti 16GB." in change(accelerator_name=["RTX 4060 Ti"], accelerator_bandwidth=[""])
    with database.read() as session:
        assert not machines.list_machines(session)


def test_what_a_sensor_told_is_not_overwritten_by_the_catalogue(client: TestClient, database: Database) -> None:
    form = {
        "name": "box",
        "accelerator_name": "RTX 3090",
        "accelerator_bandwidth": "900",
        "accelerator_source": "sensor",
        "accelerator_sourced": "900",
        "accelerator_note": "NVML",
    }
    client.post("/machines", data=form)
    with database.read() as session:
        (card,) = machines.machine(session, "box").accelerators
    assert (card["bandwidth_bytes_per_s"], card["source"], card["note"]) == (900e9, "sensor", "NVML")


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"name": " "}, "The name is missing."),
        ({"ram": "lots"}, "Memory must be a number, not &#39;lots&#39;."),
        ({"ram": "-1"}, "Memory must be more than zero and not absurdly large."),
        ({"ram": "nan"}, "Memory must be a number, not &#39;nan&#39;."),
        ({"ram": "1e13"}, "Memory must be more than zero and not absurdly large."),
        ({"ram": "936,2"}, "Memory must be a number (with a point for decimals), not &#39;936,2&#39;."),
        ({"accelerator_count": ["many", ""]}, "How many of My own card must be a whole number"),
        ({"accelerator_count": ["0", ""]}, "must be between 1 and 1,024"),
        ({"accelerator_name": ["", ""]}, "An accelerator needs a name."),
        ({"ram_speed": "3000 MHz"}, "give the data rate in MT/s."),
        ({"ram_speed": "DDR5-3000"}, "looks like its clock in MHz"),
        ({"ram_bus_bits": "100"}, "multiple of 16 bits"),
        ({"ram_bandwidth": "1e9"}, "Memory bandwidth must be more than zero and not absurdly large."),
        ({"accelerator_bandwidth": ["2e9", ""]}, "Bandwidth of My own card must be more than zero and not absurdly"),
        ({"ram": "1e-12"}, "Memory must be more than zero"),
        ({"ram": "0", "ram_exact": "0"}, "Memory must be more than zero"),
        ({"accelerator_cache": ["-5", ""]}, "Cache of My own card must be more than zero"),
        ({"cpu_peak": "1500"}, "1,000 GFLOP/s are 1 TFLOP/s."),
        ({"cpu_peak": "fast"}, "The processor&#39;s peak compute must be a number"),
        ({"cores": "0"}, "The number of cores must be between 1 and 100,000."),
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


# --- this machine ----------------------------------------------------------------------------------------------------

PROFILE = Profile(
    host=replace(this_host(), cpu="Detected 9000"),
    physical_cores=8,
    logical_cores=16,
    llc_bytes=64 << 20,
    ram=Ram("DDR5", 5600, 128),
    ram_bandwidth_bytes_per_s=89.6e9,
    ram_bandwidth_source="sensor",
    accelerators=(Accelerator("NVIDIA GeForce RTX 3090", 2, 24 << 30, 936.1e9, source="sensor", note="NVML"),),
    unknowns=(UnknownItem("AMD GPUs", "amd-smi is not installed"),),
)


@pytest.fixture
def detected(monkeypatch: pytest.MonkeyPatch) -> Profile:
    monkeypatch.setattr("app.web.pages.machines.detect", lambda catalogue: PROFILE)
    return PROFILE


@pytest.mark.usefixtures("detected")
def test_this_machine_is_filled_in_with_what_it_tells_and_what_it_does_not(
    client: TestClient, database: Database
) -> None:
    page = client.get("/machines/new?here=true").text
    assert f'value="{this_host().name}"' in page
    assert 'value="Detected 9000"' in page
    assert 'value="DDR5-5600"' in page
    assert rows_of(page) == [("NVIDIA GeForce RTX 3090", "936.1"), ("", "")]
    assert "amd-smi is not installed" in page
    with database.read() as session:
        assert not machines.list_machines(session)


@pytest.mark.usefixtures("detected")
def test_detecting_keeps_what_a_person_typed(client: TestClient, database: Database) -> None:
    typed = asdict(Accelerator("Homemade", 1, 1 << 30, 5e9, source="typed"))
    with database.write() as session:
        machines.add_machine(
            session,
            "My box",
            hostname=this_host().name,
            notes="water-cooled",
            cpu="old",
            accelerators=[typed],
            ram_bandwidth_bytes_per_s=77e9,
            ram_bandwidth_source="typed",
        )
    assert "Detect this machine" in client.get("/machines/my-box").text
    page = client.get("/machines/my-box/edit?detect=true").text
    assert rows_of(page) == [("NVIDIA GeForce RTX 3090", "936.1"), ("Homemade", "5"), ("", "")]
    for text in ('value="My box"', "water-cooled", 'value="Detected 9000"', 'value="77"'):
        assert text in page


def test_another_machine_is_neither_detected_nor_measured(
    client: TestClient, database: Database, started: list[str]
) -> None:
    client.post("/machines", data={"name": "far-away"})
    page = client.get("/machines/far-away").text
    assert "Detect this machine" not in page
    assert "Measure bandwidth" not in page
    assert 'name="cpu" type="text" value=""' in client.get("/machines/far-away/edit?detect=true").text
    answer = client.post("/machines/far-away/bandwidth")
    assert answer.status_code == 409
    assert "another machine than this one" in answer.text
    assert started == []


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Commands that would have been started as processes."""
    commands: list[str] = []
    monkeypatch.setattr(
        "app.measure.workers.start", lambda _settings, _name, *command: commands.append(" ".join(command))
    )
    return commands


def test_measuring_is_watched_and_its_end_shows_the_page_again(
    client: TestClient, database: Database, started: list[str]
) -> None:
    client.post("/machines", data={"name": "box", "here": "yes", "ram_bandwidth": "96"})
    assert "Not measured yet" in client.get("/machines/box").text
    assert client.post("/machines/box/bandwidth", follow_redirects=False).headers["location"] == "/machines/box"
    assert started == ["machine bandwidth box"]
    assert client.post("/machines/box/bandwidth").status_code == 409
    watched = client.get("/machines/box/bandwidth", headers={"hx-request": "true"})
    assert "Starting." in watched.text
    assert "hx-refresh" not in watched.headers
    with database.write() as session:
        probe = bandwidth.running_probe(session, machines.machine(session, "box"))
        assert probe is not None
        assert probe.id is not None
        bandwidth.finish(session, probe.id, replace(CALM, median_bytes_per_s=10e9))
    ended = client.get("/machines/box/bandwidth", headers={"hx-request": "true"})
    assert ended.headers["hx-refresh"] == "true"
    page = client.get("/machines/box").text
    for text in ("measured", "typed", "a lower bound", "31.2&nbsp;% of what is stated", "Unstable"):
        assert text in page
    assert "so the one before it counts" not in page


def test_a_doubtful_measurement_after_a_sound_one_is_told_and_does_not_count(
    client: TestClient, database: Database
) -> None:
    with database.write() as session:
        machine = machines.add_machine(session, "box")
        for reading in (CALM, replace(CALM, best_bytes_per_s=15e9, median_bytes_per_s=5e9)):
            probe = bandwidth.add_probe(session, machine)
            assert probe.id is not None
            bandwidth.finish(session, probe.id, reading)
    page = client.get("/machines/box").text
    assert "best 30.0 GB/s" in page
    assert "The newest measurement, 15.0 GB/s just now, is doubtful, so the previous one is used." in page


@pytest.mark.parametrize(("stated", "counts"), [(None, 15e9), (10e9, 15e9), (89.6e9, 89.6e9)])
def test_a_doubtful_measurement_never_lowers_what_is_known(
    client: TestClient, database: Database, stated: float | None, counts: float
) -> None:
    with database.write() as session:
        machine = machines.add_machine(session, "box", ram_bandwidth_bytes_per_s=stated)
        probe = bandwidth.add_probe(session, machine)
        assert probe.id is not None
        bandwidth.finish(session, probe.id, replace(CALM, best_bytes_per_s=15e9, median_bytes_per_s=5e9))
    with database.read() as session:
        memory = machines.devices(session, machine)[0]
    assert memory.bandwidth_bytes_per_s == counts
    assert {bandwidth.bytes_per_s for bandwidth in memory.bandwidths} == {15e9, stated or 15e9}
    page = client.get("/machines/box").text
    assert "a lower bound, in doubt" in page
    assert ("the higher stated figure is used" in page) == (counts != 15e9)


def test_an_archived_machine_leaves_the_lists_and_keeps_its_runs(client: TestClient, database: Database) -> None:
    with database.write() as session:
        public_id = seed(session, runs=4, configs_used=1, detailed=1)[-1]
        slug = run_document(session, public_id)["run"]["machine"]["slug"]
    assert public_id in client.get("/").text
    client.post(f"/machines/{slug}/archive")
    latest = client.get("/").text.partition("latest-title")[2].partition("</section>")[0]
    assert public_id not in latest
    assert public_id in client.get(f"/machines/{slug}").text
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


def test_archiving_asks_first_and_says_what_goes_with_it(client: TestClient, database: Database) -> None:
    with database.write() as session:
        seed(session, runs=1, configs_used=1, detailed=0)
    assert 'href="/machines/strix-halo/archive"' in client.get("/machines/strix-halo").text
    asked = client.get("/machines/strix-halo/archive").text
    assert "Archive strix-halo?" in asked
    assert "Its run stays" in asked
    assert 'action="/machines/strix-halo/archive"' in asked
    assert "Archived" not in client.get("/machines/strix-halo").text
    client.post("/machines/strix-halo/archive")
    page = client.get("/machines/strix-halo").text
    assert "Archived" in page
    assert 'action="/machines/strix-halo/restore"' in page
    assert client.get("/machines/nonesuch/archive").status_code == 404


def test_sizes_are_short_in_the_form_and_stay_exact(client: TestClient, database: Database) -> None:
    exact = {"ram_bytes": 33_567_100_928, "llc_bytes": 33_554_432}
    card = {"name": "Odd card", "count": 1, "memory_bytes": 25_769_803_776, "llc_bytes": 6_291_456}
    with database.write() as session:
        slug = machines.add_machine(session, "box", accelerators=[card], **exact).slug
    page = client.get(f"/machines/{slug}/edit").text
    assert {value for name, value in fields_of(page) if name in ("ram", "llc", "accelerator_memory") and value} == {
        "33.6",
        "25.8",
    }
    client.post(f"/machines/{slug}", data=as_form(fields_of(page)))
    with database.read() as session:
        saved = machines.machine(session, slug)
    assert {key: getattr(saved, key) for key in exact} == exact
    assert (saved.accelerators[0]["memory_bytes"], saved.accelerators[0]["llc_bytes"]) == (25_769_803_776, 6_291_456)
    typed = [(name, "64" if name == "ram" else value) for name, value in fields_of(page)]
    client.post(f"/machines/{slug}", data=as_form(typed))
    with database.read() as session:
        assert machines.machine(session, slug).ram_bytes == 64_000_000_000


def fields_of(page: str) -> list[tuple[str, str]]:
    """Names and values of the inputs of a form, in their order."""
    inputs = re.findall(r"<input [^>]*>", page)
    named = [(re.search(r' name="([^"]*)"', field), re.search(r' value="([^"]*)"', field)) for field in inputs]
    return [(name[1], unescape(value[1]) if value else "") for name, value in named if name]


def as_form(items: list[tuple[str, str]]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for name, value in items:
        values.setdefault(name, []).append(value)
    return values
