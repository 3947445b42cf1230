"""Declares the commands of two words, such as `roofmark baseline set`."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print only the JSON document.")]

baseline = typer.Typer(name="baseline", help="Manage the runs that later runs are compared with.", no_args_is_help=True)


@baseline.command("set")
def _baseline_set(run_id: Annotated[str, typer.Argument(metavar="RUN", help="ID of a finished run.")]) -> None:
    """Compare later runs of the same machine, model and suite with this run."""
    from app.cli.compare import set_baseline

    set_baseline(run_id)


@baseline.command("list")
def _baseline_list() -> None:
    """List the baselines."""
    from app.cli.compare import list_baselines

    list_baselines()


@baseline.command("clear")
def _baseline_clear(run_id: Annotated[str, typer.Argument(metavar="RUN", help="ID of a baseline.")]) -> None:
    """Stop comparing later runs with this run."""
    from app.cli.compare import clear_baseline

    clear_baseline(run_id)


shares = typer.Typer(name="shares", help="Manage shared links.", no_args_is_help=True)


@shares.command("list")
def _shares_list(as_json: Json = False) -> None:
    """List shared links, including revoked ones."""
    from app.cli.share import list_shares

    list_shares(as_json)


@shares.command("revoke")
def _shares_revoke(link: Annotated[str, typer.Argument(metavar="LINK", help="The link, or its path.")]) -> None:
    """Revoke a link: delete its page and its data for good."""
    from app.cli.share import revoke

    revoke(link)


machine = typer.Typer(name="machine", help="Detect, list and measure hardware.", no_args_is_help=True)


@machine.command("detect")
def _machine_detect(as_json: Json = False) -> None:
    """Detect this machine's CPU, memory and GPUs."""
    from app.cli.machine import detect_machine

    detect_machine(as_json)


@machine.command("bandwidth")
def _machine_bandwidth(
    slug: Annotated[str | None, typer.Argument(metavar="MACHINE", help="Slug of this machine.")] = None,
    as_json: Json = False,
) -> None:
    """Measure this machine's memory bandwidth; takes about three seconds and all cores."""
    from app.cli.machine import measure_bandwidth

    measure_bandwidth(slug, as_json)


@machine.command("peak", hidden=True)  # its name in earlier versions, for scripts
@machine.command("set-peak")
def _machine_set_peak(
    tflops: Annotated[
        float, typer.Argument(metavar="TFLOPS", help="TFLOP/s of all cores with the fastest usable path.")
    ],
    slug: Annotated[str | None, typer.Option("--machine", help="Slug of a machine; this machine by default.")] = None,
    as_json: Json = False,
) -> None:
    """Set the CPU's peak TFLOP/s (not detectable), which prefill ceilings need."""
    from app.cli.machine import set_peak

    set_peak(tflops, slug, as_json)


@machine.command("list")
def _machine_list(as_json: Json = False) -> None:
    """List machines with their memory and GPUs."""
    from app.cli.machine import list_machines

    list_machines(as_json)


@machine.command("devices")
def _machine_devices(
    text: Annotated[str, typer.Argument(metavar="NAME", help="Part of a name, such as 'rtx 3090'.")] = "",
    as_json: Json = False,
) -> None:
    """Search the device catalogue."""
    from app.cli.machine import list_devices

    list_devices(text, as_json)
