"""The command line. A command is declared and written in one module, which is imported when the command is called.

Results go to standard output, progress and errors to standard error. Exit codes: 0 done, 1 failed, 2 bad usage, 130
cancelled.
"""

import gc
import sys
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from app import __version__
from app.cli.output import say
from app.core.errors import BadInput, RoofmarkError


class CommandEntry(NamedTuple):
    """What `roofmark --help` shows of a command, and the module of this folder that declares it in its `commands`."""

    module: str
    help: str
    is_hidden: bool = False


COMMANDS = {
    "serve": CommandEntry("serve", "Show the dashboard."),
    "demo": CommandEntry("demo", "Start llama.cpp with a small model, measure it, and show the result."),
    "probe": CommandEntry("probe", "Show which engine and models answer at a URL."),
    "run": CommandEntry("measure", "Measure a server now, and store the result."),
    "worker": CommandEntry("measure", "Measure a queued run. Roofmark starts this process itself.", is_hidden=True),
    "ceiling": CommandEntry("ceiling", "Compute the fastest decode, prefill and TTFT that hardware allows a model."),
    "migrate": CommandEntry(
        "doctor", "Migrate the database to this version's schema. Other commands do this by themselves."
    ),
    "doctor": CommandEntry("doctor", "Check the installation, the data folder, the servers and the notifications."),
    "runs": CommandEntry("runs", "List runs with TTFT, prefill and decode."),
    "best": CommandEntry("best", "Show the best result of each model, quantization and machine."),
    "show": CommandEntry("runs", "Show a run."),
    "share": CommandEntry("share", "Share a snapshot of a result: as a link, an HTML file, a picture or Markdown."),
    "label": CommandEntry("runs", "Add labels to a run, or remove them."),
    "hide": CommandEntry("runs", "Exclude a run from histories and statistics, with a reason."),
    "unhide": CommandEntry("runs", "Include a hidden run in histories and statistics again."),
    "delete": CommandEntry("runs", "Delete a run, after showing what is deleted with it."),
    "compare": CommandEntry("compare", "Compare runs: what differs, ratios with 95 % intervals, and verdicts."),
    "updates": CommandEntry("history", "List engine updates, and how they changed TTFT, prefill and decode."),
    "note": CommandEntry("history", "Manage notes in the history, such as a new power supply."),
    "baseline": CommandEntry("compare", "Manage the runs that later runs are compared with."),
    "shares": CommandEntry("share", "Manage shared links."),
    "machine": CommandEntry("machine", "Detect, list and measure hardware."),
}


@cache
def load_command(name: str) -> TyperCommand | TyperGroup:
    """Imports the module of a command, or of a group such as `machine`, and returns it with its options."""
    # imported modules live as long as the process: not to look for garbage among them takes a third off `runs`
    gc.disable()
    try:
        module = import_module(f"app.cli.{COMMANDS[name].module}")
        gc.freeze()
    finally:
        gc.enable()
    command: TyperCommand | TyperGroup = get_group(module.commands).commands[name]  # type: ignore[assignment]  # Typer vendors Click's types
    return command


class LazyGroup(TyperGroup):
    """Lists COMMANDS by their entries, and loads the one that is called or asked for its own help."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, entry in COMMANDS.items():
            self.add_command(TyperCommand(name, help=entry.help, hidden=entry.is_hidden))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, remaining_args = super().resolve_command(ctx, args)
        return name, command and load_command(command.name), remaining_args


app = typer.Typer(
    name="roofmark",
    cls=LazyGroup,
    help="Measure TTFT, prefill and decode of LLM servers, and keep the history.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"roofmark {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line. A foreseen error is printed as one sentence; any other goes to a log with its traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character still shows the rest
    try:
        _refuse_broken_text(sys.argv[1:])
        app()
    except RoofmarkError as error:
        say(f"roofmark: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:  # the shell's code for Ctrl+C
        sys.exit(130)
    except BrokenPipeError:  # `roofmark runs | head`
        sys.stderr.close()
        sys.exit(0)
    except Exception:  # the traceback goes to the log
        from app.cli.startup import log_crash  # loads the settings and the database, which `--help` does without

        typer.echo(f"roofmark: Internal error; its traceback is in {log_crash()}.", err=True)
        sys.exit(1)


def _refuse_broken_text(arguments: list[str]) -> None:
    for position, argument in enumerate(arguments, start=1):
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise BadInput(f"Argument {position} is not valid UTF-8.") from error
