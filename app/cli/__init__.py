"""The command line. This module, `results` and `groups` declare the commands and load nothing heavy: `--help` is fast.

The other modules of this folder do the work. Results go to standard output, progress and errors to standard error. Exit
codes: 0 done, 1 failed, 2 bad usage, 130 cancelled.
"""

import gc
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from app.cli import groups, help_texts, results
from app.cli.groups import Json
from app.core.errors import BadInput, RoofmarkError

app = typer.Typer(
    name="roofmark",
    help="Measure TTFT, prefill and decode of LLM servers, and keep the history.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Url = Annotated[str | None, typer.Option("--url", help="Base URL of the server, such as 127.0.0.1:8080.")]
ApiKey = Annotated[
    str | None, typer.Option("--api-key", envvar="ROOFMARK_API_KEY", show_envvar=True, help="The server's API key.")
]
EngineKey = Annotated[str | None, typer.Option("--engine", help="Engine, if detection gets it wrong: {engines}.")]


def main() -> None:
    """Run the command line. A foreseen error is printed as one sentence; any other goes to a log with its traceback."""
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
    except KeyboardInterrupt:  # the shell's code for Ctrl+C
        sys.exit(130)
    except BrokenPipeError:  # `roofmark runs | head`
        sys.stderr.close()
        sys.exit(0)
    except Exception:  # the traceback goes to the log
        from app.cli.common import log_crash

        typer.echo(f"roofmark: Internal error; its traceback is in {log_crash()}.", err=True)
        sys.exit(1)


def _refuse_broken_text(arguments: list[str]) -> None:
    for position, argument in enumerate(arguments, start=1):
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise BadInput(f"Argument {position} is not valid UTF-8.") from error


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from app import __version__

        typer.echo(f"roofmark {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 picks a free one.", min=0, max=65535)] = None,
    allow_no_password: Annotated[
        bool, typer.Option("--allow-no-password", help="Listen on a public address without a password.")
    ] = False,
) -> None:
    """Show the dashboard."""
    gc.disable()  # nothing that is imported is garbage; switched on again when the server is up
    from app.cli.serve import serve_dashboard

    serve_dashboard(host, port, allow_no_password)


@app.command()
def demo(
    once: Annotated[bool, typer.Option("--once", help="Exit after the run instead of showing the dashboard.")] = False,
) -> None:
    """Start llama.cpp with a small model, measure it, and show the result."""
    from app.cli.demo import run_demo

    run_demo(once)


@app.command(cls=help_texts.ListingCommand)
def probe(
    url: Annotated[str, typer.Argument(metavar="URL", help="Base URL of the server.")],
    engine: EngineKey = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Show which engine and models answer at a URL."""
    from app.cli.probe import probe_server

    probe_server(url, engine, api_key, as_json)


@app.command(cls=help_texts.ListingCommand)
def run(
    url: Url = None,
    server: Annotated[str | None, typer.Option("--server", help="Slug of a server that was added before.")] = None,
    engine: EngineKey = None,
    model: Annotated[str | None, typer.Option("--model", help="Model to measure, if the server has several.")] = None,
    suite: Annotated[str, typer.Option("--suite", help="Suite to run: {suites}, or your own.")] = "triple",
    reps: Annotated[
        int | None, typer.Option("--reps", help="Number of repetitions; the suite decides by default.")
    ] = None,
    warmup: Annotated[
        int | None, typer.Option("--warmup", help="Number of warm-ups; the suite decides by default.")
    ] = None,
    runs: Annotated[int, typer.Option("--runs", help="Number of runs, one after another.", min=1, max=20)] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting the API does not expose, such as cards=2; remembered for the model.",
        ),
    ] = None,
    log: Annotated[
        str | None,
        typer.Option("--log", metavar="FILE", help="The server's log file on this machine; remembered, '' clears it."),
    ] = None,
    note: Annotated[str, typer.Option("--note", help="Note for this run.")] = "",
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Measure a server now, and store the result."""
    from app.cli.measure import RunRequest, measure

    measure(
        RunRequest(url, server, engine, model, suite, reps, warmup, settings or [], note, api_key, log), runs, as_json
    )


@app.command(hidden=True)
def worker(run_id: Annotated[str, typer.Argument(metavar="RUN", help="ID of a queued run.")]) -> None:
    """Measure a queued run. Roofmark starts this process itself."""
    from app.cli.measure import run_worker

    run_worker(run_id)


app.add_typer(results.commands)
app.add_typer(groups.baseline)
app.add_typer(groups.shares)
app.add_typer(groups.machine)


@app.command()
def ceiling(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A GGUF file (any shard) or a config.json.")],
    device: Annotated[
        str | None, typer.Option("--device", help="A device of the catalogue or of a machine, such as 'RTX 3090'.")
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option("--bandwidth", help="Memory bandwidth in GB/s; replaces the device's.")
    ] = None,
    teraflops: Annotated[
        float | None, typer.Option("--tflops", help="Peak dense compute in TFLOP/s; needed for prefill.")
    ] = None,
    context: Annotated[
        int, typer.Option("--context", help="Tokens in the KV cache, and prompt length for prefill.")
    ] = 0,
    kv: Annotated[str, typer.Option("--kv", help="KV cache type, such as q8_0, or K/V as q8_0/f16.")] = "f16",
    batch: Annotated[int, typer.Option("--batch", help="Number of concurrent sequences.")] = 1,
    bits: Annotated[float | None, typer.Option("--bits", help="Bits per weight, for a config.json.")] = None,
    drafting: Annotated[
        tuple[int, float] | None,
        typer.Option(
            "--drafting",
            metavar="DRAFTED ACCEPTED",
            help="Speculative decoding: tokens drafted per step, and how many of them are accepted on average.",
        ),
    ] = None,
    draft: Annotated[
        Path | None,
        typer.Option("--draft", metavar="FILE", help="The draft model; without it, its reads are not counted."),
    ] = None,
    gpu_layers: Annotated[
        int | None,
        typer.Option("-ngl", "--gpu-layers", help="Layers on the device; the rest is in system memory.", min=0),
    ] = None,
    n_cpu_moe: Annotated[
        int | None,
        typer.Option("--n-cpu-moe", help="Keep the routed experts of the first N layers in system memory.", min=0),
    ] = None,
    cpu_moe: Annotated[bool, typer.Option("--cpu-moe", help="Keep all routed experts in system memory.")] = False,
    override_tensor: Annotated[
        str,
        typer.Option(
            "-ot",
            "--override-tensor",
            metavar="PATTERN=BUFFER",
            help="Tensor placement as in llama.cpp, such as 'exps=CPU'.",
        ),
    ] = "",
    ram_bandwidth: Annotated[
        str | None,
        typer.Option("--ram-bandwidth", help="System memory bandwidth in GB/s, for what is not on the device."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compute the fastest decode, prefill and TTFT that hardware allows a model."""
    from app.ceiling.offload import ALL_LAYERS, Offload
    from app.cli.ceiling import print_ceiling

    offload = Offload(gpu_layers, ALL_LAYERS if cpu_moe else n_cpu_moe, override_tensor)
    print_ceiling(
        file, device, bandwidth, teraflops, context, kv, batch, bits, drafting, draft, offload, ram_bandwidth, as_json
    )


@app.command()
def migrate(
    revision: Annotated[str, typer.Argument(help="Schema revision to migrate to; an older one downgrades.")] = "head",
) -> None:
    """Migrate the database to this version's schema. Other commands do this by themselves."""
    from app.cli.doctor import migrate_to

    migrate_to(revision)


@app.command()
def doctor(
    notify: Annotated[bool, typer.Option("--notify", help="Send a test notification.")] = False,
) -> None:
    """Check the installation, the data folder, the servers and the notifications."""
    from app.cli.doctor import run_checks

    run_checks(notify)
