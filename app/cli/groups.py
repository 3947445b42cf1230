"""Commands of two words, declared as those of one word are."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print only the JSON document.")]

baseline = typer.Typer(name="baseline", help="The runs that later ones are compared with.", no_args_is_help=True)


@baseline.command("set")
def _baseline_set(run_id: Annotated[str, typer.Argument(help="A finished run.")]) -> None:
    """Compare later runs of this machine, model and suite with a run."""
    from app.cli.compare import set_baseline

    set_baseline(run_id)


@baseline.command("list")
def _baseline_list() -> None:
    """List the baselines."""
    from app.cli.compare import list_baselines

    list_baselines()


@baseline.command("clear")
def _baseline_clear(run_id: Annotated[str, typer.Argument(help="The run that is to be no baseline any more.")]) -> None:
    """Compare later runs with it no more."""
    from app.cli.compare import clear_baseline

    clear_baseline(run_id)


shares = typer.Typer(name="shares", help="The links that were made.", no_args_is_help=True)


@shares.command("list")
def _shares_list(as_json: Json = False) -> None:
    """List the links, revoked ones included."""
    from app.cli.share import list_shares

    list_shares(as_json)


@shares.command("revoke")
def _shares_revoke(link: Annotated[str, typer.Argument(help="As it was printed, or copied.")]) -> None:
    """Make a link lead nowhere: its page and its data are gone at once and for ever."""
    from app.cli.share import revoke

    revoke(link)


machine = typer.Typer(name="machine", help="What the machines are made of.", no_args_is_help=True)


@machine.command("detect")
def _machine_detect(as_json: Json = False) -> None:
    """Find out what this machine is made of, and fill its profile."""
    from app.cli.machine import detect

    detect(as_json)


@machine.command("bandwidth")
def _machine_bandwidth(
    slug: Annotated[str | None, typer.Argument(help="This machine, by its slug.")] = None, as_json: Json = False
) -> None:
    """Measure how fast this machine reads its memory; takes about three seconds and all of its cores."""
    from app.cli.machine import bandwidth

    bandwidth(slug, as_json)


@machine.command("peak")
def _machine_peak(
    tflops: Annotated[float, typer.Argument(help="TFLOP/s of all cores by the fastest usable path.")],
    slug: Annotated[str | None, typer.Option("--machine", help="Its slug; this machine without it.")] = None,
    as_json: Json = False,
) -> None:
    """State how much a processor can compute, so that runs on it have a prefill ceiling."""
    from app.cli.machine import peak

    peak(tflops, slug, as_json)


@machine.command("list")
def _machine_list(as_json: Json = False) -> None:
    """List the machines with their memory and accelerators."""
    from app.cli.machine import list_them

    list_them(as_json)


@machine.command("devices")
def _machine_devices(
    text: Annotated[str, typer.Argument(help="Words of a name, such as 'rtx 3090'.")] = "", as_json: Json = False
) -> None:
    """Look into the catalogue of devices."""
    from app.cli.machine import list_devices

    list_devices(text, as_json)
