"""A device by its name: a machine's own, one of the catalogue, or a sentence with what it may mean."""

import pytest

from app.ceiling.decode import Device
from app.core.errors import BadInput
from app.db import devices
from app.db.database import Database
from app.db.devices import KnownDevice, KnownDevices, known_devices
from app.hardware.catalogue import built_in
from tests.seed import seed

OWN = [
    KnownDevice(Device(name, 50e9), "measured", None) for name in ("Memory DDR4-3200 on box", "Card on a", "Card on b")
]
KNOWN = KnownDevices(OWN, built_in())


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("RTX 3090", "GeForce RTX 3090"),
        ("nvidia geforce rtx 3090", "GeForce RTX 3090"),
        ("memory ddr4-3200 on BOX", "Memory DDR4-3200 on box"),
        ("Memory DDR4-3200", "Memory DDR4-3200 on box"),
        ("Card on b", "Card on b"),
    ],
)
def test_what_a_name_means(name: str, meant: str) -> None:
    assert KNOWN.find(name).name == meant


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("m3 max", r"'m3 max' matches several devices: Apple M3 Max \(30-core GPU\), Apple M3 Max \(40-core GPU\)\.$"),
        ("card", r"matches several devices: Card on a, Card on b\.$"),
        ("rtx 3091", r"no?.*a device 'rtx 3091'\. Did you mean GeForce RTX 3090\?$"),
        ("abacus", r"Neither the catalogue nor a machine has a device 'abacus'\.$"),
        ("", r"has a device ''\.$"),
    ],
)
def test_names_that_mean_several_or_none(name: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        KNOWN.find(name)


def test_the_machines_devices_and_a_persons_own_stand_beside_the_catalogue(database: Database) -> None:
    with database.write() as session:
        seed(session, runs=1, configs_used=1, detailed=0)
        devices.save_device(session, "Abacus", kind="gpu", bandwidth_bytes_per_s=5e9, source="counted")
    with database.read() as session:
        catalogue = known_devices(session)
    match = catalogue.find("Radeon 8060S on strix-halo")
    assert (match.device.bandwidth_bytes_per_s, match.device.peak_flops) == (256e9, 59e12)
    assert match.source == "from the catalogue"
    assert catalogue.find("abacus").source == "from the catalogue: counted"
    assert catalogue.names[:2] == ["RTX 3090 on 2×3090", "M3 Ultra on m3-ultra"]
