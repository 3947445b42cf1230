"""`roofmark machine`."""

import json

from app.hardware.host import this_host
from tests.cli.processes import Roofmark, one_sentence


def test_this_machine_is_detected_listed_and_not_added_twice(roofmark: Roofmark, roofmark_process: Roofmark) -> None:
    assert "roofmark machine detect" in roofmark("machine", "list").stdout
    result = roofmark_process("machine", "detect")
    assert result.returncode == 0
    assert "Processor" in result.stdout
    assert "Traceback" not in result.stderr
    document = json.loads(roofmark("machine", "detect", "--json").stdout)
    assert document["schema"] == "roofmark.machine/1"
    assert document["machine"]["name"] == this_host().name
    assert document["machine"]["ram_bytes"] > 0
    assert document["machine"]["devices"][0]["kind"] == "ram"
    assert all(unknown["what"] and unknown["reason"] for unknown in document["unknowns"])
    listed = json.loads(roofmark("machine", "list", "--json").stdout)
    assert [machine["slug"] for machine in listed["machines"]] == [document["machine"]["slug"]]
    assert document["machine"]["slug"] in roofmark("machine", "list").stdout


def test_the_catalogue_is_read(roofmark: Roofmark) -> None:
    assert "GeForce RTX 3090 Ti" in roofmark("machine", "devices", "rtx 3090").stdout
    (device,) = json.loads(roofmark("machine", "devices", "tesla p40", "--json").stdout)["devices"]
    assert (device["name"], device["bandwidth_bytes_per_s"]) == ("Tesla P40", 347.1e9)
    assert "There is no device" in roofmark("machine", "devices", "voodoo").stdout


def test_the_peak_of_a_cpu_is_set_by_hand(roofmark: Roofmark) -> None:
    assert "1.50 TFLOP/s" in roofmark("machine", "set-peak", "1.5").stdout
    (machine,) = json.loads(roofmark("machine", "list", "--json").stdout)["machines"]
    assert machine["cpu_flops_per_s"] == machine["devices"][0]["compute_flops_per_s"] == 1.5e12
    assert "1.50 TFLOP/s" in roofmark("machine", "list").stdout
    for senseless in ("0", "1e9", "nan", "inf", "1500"):
        assert "peak must be" in one_sentence(roofmark("machine", "set-peak", senseless))
    assert "no machine" in one_sentence(roofmark("machine", "set-peak", "1", "--machine", "nonesuch"))
    assert "2.50 TFLOP/s" in roofmark("machine", "peak", "2.5").stdout  # its name in earlier versions


def test_a_machine_that_is_not_there_is_one_sentence(roofmark: Roofmark) -> None:
    result = roofmark("machine", "bandwidth", "nonesuch")
    assert result.returncode == 2
    assert one_sentence(result) == "roofmark: There is no machine called 'nonesuch'."


def test_the_memory_is_measured_and_the_result_is_json(roofmark: Roofmark, roofmark_process: Roofmark) -> None:
    result = roofmark_process("machine", "bandwidth", "--json")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["schema"] == "roofmark.bandwidth/1"
    assert document["is_lower_bound"] is True
    assert 0 < document["median_bytes_per_s"] <= document["best_bytes_per_s"]
    assert document["threads"] in [step["threads"] for step in document["sweep"]]
    (machine,) = json.loads(roofmark("machine", "list", "--json").stdout)["machines"]
    (stated,) = [bandwidth for bandwidth in machine["devices"][0]["bandwidths"] if bandwidth["source"] == "measured"]
    assert stated["bytes_per_s"] == document["best_bytes_per_s"]
