"""The command line. This module, `results` and `groups` only declare commands, so that `--help` loads nothing heavy.

The work is in the modules beside them. Standard output carries results, standard error progress and errors. Exit
codes: 0 done, 1 failed, 2 bad usage, 130 cancelled.
"""

import gc
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from app.cli import groups, results
from app.cli.groups import Json
from app.core.errors import BadInput, RoofmarkError

app = typer.Typer(
    name="roofmark",
    help="Records TTFT, prefill and decode of language model servers, and keeps the history.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Url = Annotated[str | None, typer.Option("--url", help="Base URL of the server, such as 127.0.0.1:8080.")]
ApiKey = Annotated[
    str | None, typer.Option("--api-key", envvar="ROOFMARK_API_KEY", show_envvar=True, help="API key of the server.")
]
EngineKey = Annotated[str | None, typer.Option("--engine", help="Engine, when it should not be recognised by itself.")]


def main() -> None:
    """Entry point: every foreseen error is one sentence, everything else goes to the log with its traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character still shows the rest
    try:
        _refuse_broken_text(sys.argv[1:])
        app()
    except RoofmarkError as error:
        from app.cli.common import say

        say(f"roofmark: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # `roofmark runs | head`
        sys.stderr.close()
        sys.exit(0)
    except Exception:
        from app.cli.common import log_crash

        typer.echo(f"roofmark: Something went wrong inside Roofmark; {log_crash()} says what.", err=True)
        sys.exit(1)


def _refuse_broken_text(arguments: list[str]) -> None:
    for position, argument in enumerate(arguments, start=1):
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise BadInput(f"Argument {position} is not valid UTF-8.") from error


def _version(wanted: bool) -> None:
    if wanted:
        from app import __version__

        typer.echo(f"roofmark {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)] = None,
    allow_no_password: Annotated[
        bool, typer.Option("--allow-no-password", help="Listen on a public address without a password.")
    ] = False,
) -> None:
    """Show the dashboard."""
    gc.disable()  # nothing that is imported is garbage; switched on again when the server is up
    from app.cli.serve import serve as run_it

    run_it(host, port, allow_no_password)


@app.command()
def demo(
    once: Annotated[bool, typer.Option("--once", help="End after the run instead of showing the dashboard.")] = False,
) -> None:
    """Start a real llama.cpp engine with a small model, measure it, and show the result."""
    from app.cli.demo import demo as run_it

    run_it(once)


@app.command()
def probe(
    url: Annotated[str, typer.Argument(help="Base URL of the server.")],
    engine: EngineKey = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Say what answers at a URL."""
    from app.cli.probe import probe as run_it

    run_it(url, engine, api_key, as_json)


@app.command()
def run(
    url: Url = None,
    server: Annotated[str | None, typer.Option("--server", help="A server that Roofmark knows, by its slug.")] = None,
    engine: EngineKey = None,
    model: Annotated[str | None, typer.Option("--model", help="Model, when the server has several.")] = None,
    suite: Annotated[str, typer.Option("--suite", help="triple, lengths, bench512, or one of your own.")] = "triple",
    reps: Annotated[int | None, typer.Option("--reps", help="Repetitions; the suite's own number otherwise.")] = None,
    warmup: Annotated[int | None, typer.Option("--warmup", help="Warm-ups; the suite's own number otherwise.")] = None,
    runs: Annotated[int, typer.Option("--runs", help="Runs of the same, one after another.", min=1, max=20)] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="What a probe cannot know, such as cards=2; remembered."),
    ] = None,
    log: Annotated[
        str | None,
        typer.Option(
            "--log", metavar="FILE", help="The log of llama.cpp or Strata on this machine; remembered, '' forgets it."
        ),
    ] = None,
    note: Annotated[str, typer.Option("--note", help="A note for this run.")] = "",
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Measure a server here and now, and keep the result."""
    from app.cli.measure import Request, measure

    measure(Request(url, server, engine, model, suite, reps, warmup, settings or [], note, api_key, log), runs, as_json)


@app.command()
def work(run_id: Annotated[str, typer.Argument(help="A queued run.")]) -> None:
    """Measure a queued run; the dashboard starts this by itself."""
    from app.cli.measure import work as run_it

    run_it(run_id)


app.add_typer(results.commands)
app.add_typer(groups.baseline)
app.add_typer(groups.shares)
app.add_typer(groups.machine)


@app.command()
def ceiling(
    file: Annotated[Path, typer.Argument(help="A GGUF file (any shard), or a config.json.")],
    device: Annotated[
        str | None, typer.Option("--device", help="A device of the catalogue or of a machine, such as 'RTX 3090'.")
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option("--bandwidth", help="Memory bandwidth in GB/s, without or in the place of a device's.")
    ] = None,
    teraflops: Annotated[
        float | None, typer.Option("--tflops", help="Dense peak of the device in TFLOP/s; prefill needs it.")
    ] = None,
    context: Annotated[int, typer.Option("--context", help="Tokens in the cache, and the length of the prompt.")] = 0,
    kv: Annotated[str, typer.Option("--kv", help="Type of the KV cache, such as q8_0 or q8_0/f16.")] = "f16",
    batch: Annotated[int, typer.Option("--batch", help="Sequences at once.")] = 1,
    bits: Annotated[float | None, typer.Option("--bits", help="Bits per weight for a config.json.")] = None,
    drafting: Annotated[
        tuple[int, float] | None,
        typer.Option(
            "--drafting",
            metavar="DRAFTED ACCEPTED",
            help="Speculative decoding: tokens drafted at a time, and how many of them are accepted on average.",
        ),
    ] = None,
    draft: Annotated[
        Path | None, typer.Option("--draft", metavar="FILE", help="The draft model; without it its reads are left out.")
    ] = None,
    gpu_layers: Annotated[
        int | None,
        typer.Option("-ngl", "--gpu-layers", help="Layers on the device; the others in system memory.", min=0),
    ] = None,
    n_cpu_moe: Annotated[
        int | None,
        typer.Option("--n-cpu-moe", help="Of so many first layers the routed experts are in system memory.", min=0),
    ] = None,
    cpu_moe: Annotated[bool, typer.Option("--cpu-moe", help="All routed experts are in system memory.")] = False,
    override_tensor: Annotated[
        str,
        typer.Option("-ot", "--override-tensor", metavar="PATTERN=BUFFER", help="As llama.cpp takes it: 'exps=CPU'."),
    ] = "",
    ram_bandwidth: Annotated[
        str | None, typer.Option("--ram-bandwidth", help="Of system memory in GB/s, for what is not on the device.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compute what hardware allows a model at most: decode, prefill and TTFT, with the arithmetic."""
    from app.ceiling.offload import ALL_LAYERS, Offload
    from app.cli.ceiling import ceiling as run_it

    offload = Offload(gpu_layers, ALL_LAYERS if cpu_moe else n_cpu_moe, override_tensor)
    run_it(
        file, device, bandwidth, teraflops, context, kv, batch, bits, drafting, draft, offload, ram_bandwidth, as_json
    )


@app.command()
def migrate(
    revision: Annotated[str, typer.Argument(help="Layout to go to; an older one downgrades.")] = "head",
) -> None:
    """Bring the database to the layout of this version (other commands do it by themselves)."""
    from app.cli.doctor import migrate as run_it

    run_it(revision)


@app.command()
def doctor(
    notify: Annotated[bool, typer.Option("--notify", help="Send a notification as a test.")] = False,
) -> None:
    """Check what is installed, where data lives, and which servers answer."""
    from app.cli.doctor import doctor as run_it

    run_it(notify)
