"""The command line. This module and `groups` only declare commands, so that `--help` loads nothing heavy.

The work is in the modules beside them. Standard output carries results, standard error progress and errors. Exit
codes: 0 done, 1 failed, 2 bad usage, 130 cancelled.
"""

import gc
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Literal

import typer

from app.cli import groups
from app.cli.groups import Json
from app.errors import BadInput, RoofmarkError

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

    measure(Request(url, server, engine, model, suite, reps, warmup, settings or [], note, api_key, log), as_json)


@app.command()
def work(run_id: Annotated[str, typer.Argument(help="A queued run.")]) -> None:
    """Measure a queued run; the dashboard starts this by itself."""
    from app.cli.measure import work as run_it

    run_it(run_id)


@app.command()
def runs(
    machine: Annotated[str | None, typer.Option(help="Only this machine, by its slug.")] = None,
    server: Annotated[str | None, typer.Option(help="Only this server, by its slug.")] = None,
    model: Annotated[str | None, typer.Option(help="Only this model.")] = None,
    suite: Annotated[str | None, typer.Option(help="Only this suite.")] = None,
    status: Annotated[str | None, typer.Option(help="Only runs in this state.")] = None,
    label: Annotated[str | None, typer.Option(help="Only runs with this label.")] = None,
    hidden: Annotated[str | None, typer.Option(help="only hidden runs, or without them.")] = None,
    search: Annotated[str | None, typer.Option(help="Words of notes, labels, settings, ...")] = None,
    sort: Annotated[str, typer.Option(help="queued, started, model, ttft, prefill, decode, ...")] = "queued",
    ascending: Annotated[bool, typer.Option("--ascending", help="Smallest or oldest first.")] = False,
    page: Annotated[int, typer.Option(min=1)] = 1,
    per_page: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Runs to a page.")] = 20,
    as_json: Json = False,
) -> None:
    """List runs with their triple."""
    from app.cli.show import list_them
    from app.store.filters import Filter

    where = Filter(status, machine, server, model, suite, text=search, label=label, hidden=hidden)
    list_them(where, sort, not ascending, page, per_page, as_json)


@app.command()
def show(run_id: Annotated[str, typer.Argument(help="Id of a run.")], as_json: Json = False) -> None:
    """Show one run."""
    from app.cli.show import show as run_it

    run_it(run_id, as_json)


@app.command()
def share(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="Id of a run; several are compared. Or, in quotes, the address of a page with a button Share.",
        ),
    ],
    title: Annotated[str, typer.Option("--title", help="A title of your own.")] = "",
    include: Annotated[
        list[str] | None,
        typer.Option(
            "--include", help="Make this public too: note, labels, prompt, machine or flags; may be repeated."
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write one HTML file instead of making a link.")] = None,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a post for a forum instead of making a link.")
    ] = False,
) -> None:
    """Make a snapshot of a result public: print its link, or write it to a file without one."""
    from app.cli.share import share as run_it

    run_it(what, title, include or [], html, as_markdown)


@app.command()
def label(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Id of a run.")],
    act: Annotated[Literal["add", "remove"], typer.Argument(help="What to do with the labels.")],
    labels: Annotated[list[str], typer.Argument(metavar="LABEL...", help="Words of your own.")],
) -> None:
    """Add labels to a run, or remove them."""
    from app.cli.annotate import label as run_it

    run_it(run_id, act, labels)


@app.command()
def hide(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Id of a run.")],
    reason: Annotated[str, typer.Option("--reason", help="Why, in a sentence.", prompt=True)],
) -> None:
    """Leave a run out of histories and statistics, with a reason."""
    from app.cli.annotate import hide as run_it

    run_it(run_id, reason)


@app.command()
def unhide(run_id: Annotated[str, typer.Argument(metavar="RUN", help="Id of a hidden run.")]) -> None:
    """Take a hidden run back into histories and statistics."""
    from app.cli.annotate import unhide as run_it

    run_it(run_id)


@app.command()
def delete(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Id of a run.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a run, after saying what goes with it."""
    from app.cli.annotate import delete as run_it

    run_it(run_id, is_sure=yes)


@app.command()
def compare(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="2 to 8 run ids, the first one as the base; or latest, previous, baseline; config:RUN takes all runs "
            "of that run's configuration together.",
        ),
    ],
    fail_on: Annotated[
        list[str] | None,
        typer.Option("--fail-on", help="Exit with 1 on this verdict: better, worse, same or inconclusive."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", help="Metric to compare, such as decode_tokens_per_s; else the triple."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare runs: what differs, ratios with 95 % intervals, and verdicts."""
    from app.cli.compare import compare_them

    compare_them(names, fail_on or [], metric or [], as_json)


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
    as_json: Json = False,
) -> None:
    """Compute what hardware allows a model at most: decode, prefill and TTFT, with the arithmetic."""
    from app.cli.ceiling import ceiling as run_it

    run_it(file, device, bandwidth, teraflops, context, kv, batch, bits, as_json)


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
