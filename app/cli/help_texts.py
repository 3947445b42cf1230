"""Help texts that list what the code knows, such as the suites, without a copy of the list."""

from collections.abc import Callable, Iterable
from typing import Any

from typer.core import TyperCommand


class ListingCommand(TyperCommand):
    """A command whose options may say `{suites}` or another key of `LISTS` in their help.

    The lists are made when the help is shown: loading them would slow down every command.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for parameter in self.params:
            text = getattr(parameter, "help", None) or ""
            for name, load in LISTS.items():
                if f"{{{name}}}" in text:
                    text = text.replace(f"{{{name}}}", ", ".join(load()))
                    parameter.help = text  # type: ignore[attr-defined]  # arguments and options have one
        super().format_help(ctx, formatter)


def _engines() -> Iterable[str]:
    from app import engines

    return sorted(engine.key for engine in engines.all())


def _metrics() -> Iterable[str]:
    from app.metrics import metrics

    return metrics()


def _share_options() -> Iterable[str]:
    from app.share.options import Option

    return Option


def _sorts() -> Iterable[str]:
    from app.results.run_list import SORTS

    return SORTS


def _states() -> Iterable[str]:
    from app.db.tables import RUN_STATES

    return RUN_STATES


def _suites() -> Iterable[str]:
    from app.suites import BUILT_IN

    return BUILT_IN


def _verdicts() -> Iterable[str]:
    from app.stats.verdict import Verdict

    return Verdict


LISTS: dict[str, Callable[[], Iterable[str]]] = {
    "engines": _engines,
    "metrics": _metrics,
    "share options": _share_options,
    "sorts": _sorts,
    "states": _states,
    "suites": _suites,
    "verdicts": _verdicts,
}
