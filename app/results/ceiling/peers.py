"""Which published results a run is compared with: those of its kind of model on its class of device."""

from app.ceiling.published import Group, decode_group, device_class, model_kind, prefill_group
from app.hardware.catalogue import Catalogue
from app.results.ceiling.placement import Placement


def decode_peers(placement: Placement, catalogue: Catalogue) -> Group | None:
    return decode_group(_device_class(placement, catalogue), model_kind(placement.geometry))


def prefill_peers(placement: Placement, catalogue: Catalogue) -> Group | None:
    return prefill_group(_device_class(placement, catalogue), model_kind(placement.geometry))


def _device_class(placement: Placement, catalogue: Catalogue) -> str | None:
    """None where unlike devices hold the model, such as a GPU and system memory: nothing was published of those."""
    classes = {
        _class_of(device_share.device.name, device_share.memory_bytes, device_share.is_ram, catalogue)
        for device_share in placement.device_shares
    }
    return classes.pop() if len(classes) == 1 else None


def _class_of(name: str, memory_bytes: int | None, is_ram: bool, catalogue: Catalogue) -> str | None:
    if is_ram:
        return device_class(name, "", "ram", "")
    device = catalogue.find(name, memory_bytes).device
    return device_class(device.name, device.vendor, device.kind, device.memory_kind) if device else None
