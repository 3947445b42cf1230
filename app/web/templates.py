"""The environment of the pages' templates, with their filters, and rendering."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app import engines
from app.core import config_settings, templating, units
from app.core.i18n import _, as_sentence, enumerated, first_sentence, lower_first
from app.core.unknown_settings import MAX_NAMED_SETTINGS, unknown_text
from app.db.machines import device_title
from app.metrics import metrics
from app.results.compare.differences import verdict_subject_text
from app.results.compare.result import Cell, ratio_note, scatter_words, settle_words, unsound_run_words, unsound_words
from app.results.compare.words import LEGEND, brief_words, change_words, ratio_words
from app.results.run_list import ShownMetric
from app.stats.verdict import Ratio
from app.suites import BUILT_IN, Suite, brief_title, point_title
from app.web import calculator, language, terms
from app.web.flash import clear_flash, flash_message
from app.web.menu import menu
from app.web.paths import path_for

if TYPE_CHECKING:
    import jinja2


@cache
def environment() -> "jinja2.Environment":
    env = templating.environment()
    env.globals.update(
        is_logged_in=is_logged_in,
        menu=menu,
        flash_message=flash_message,
        return_address=language.return_address,
        glossary_entry=terms.entry,
        log_engine_titles=_log_engine_titles,
        has_llama_bench=_has_llama_bench,
        metric_of=lambda key: metrics()[key],
        verdict_legend=LEGEND,
        most_named=MAX_NAMED_SETTINGS,
    )
    env.filters.update(
        spread=_spread,
        version=_version,
        brief_words=lambda ratios: _unbroken(brief_words(ratios)),
        change_interval=_change_interval,
        ratio_words=lambda ratio, metric: _unbroken(ratio_words(metric, ratio)),
        unbroken=_unbroken,
        verdict_sentence=lambda words: as_sentence(_unbroken(words)),
        percent=lambda fraction: _unbroken(units.format_percent(fraction)),
        change_words=lambda ratio, metric: _unbroken(change_words(metric, ratio)),
        interval_words=lambda interval: _unbroken(units.change_interval(*interval)),
        about_words=verdict_subject_text,
        unknown_text=unknown_text,
        ratio_note=ratio_note,
        scatter_words=scatter_words,
        settle_words=settle_words,
        unsound_run_words=unsound_run_words,
        unsound_words=unsound_words,
        point_title=point_title,
        duration=units.format_duration,
        size=units.format_bytes,
        bandwidth=units.format_bandwidth,
        billions=units.format_billions,
        ago=units.format_age,
        iso=_iso,
        when=_when,
        engine_title=engine_title,
        setting_keys=config_settings.ordered_setting_keys,
        setting_title=config_settings.setting_title,
        setting_value=config_settings.format_setting,
        code=_code,
        point_words=brief_title,
        attention_words=calculator.attention_words,
        geometry_source=calculator.geometry_source_words,
        first_sentence=lambda text: first_sentence(str(text)),
        flag_name=terms.flag_name,
        sentence=as_sentence,
        suite_title=suite_title,
        device_title=device_title,
        metric_title=lambda key: metrics()[key].title,
        lower_first=lower_first,
    )
    return env


def render_text(request: Request, template: str, context: Mapping[str, Any]) -> str:
    def url_for(name: str, /, **path_params: Any) -> str:
        return path_for(request, name, **path_params)

    return (
        environment()
        .get_template(template)
        .render(
            **context,
            request=request,
            url_for=url_for,
            is_login_used=request.app.state.settings.password is not None,
        )
    )


def render(request: Request, template: str, *, status: int = 200, **context: Any) -> Response:
    answer = HTMLResponse(render_text(request, template, context), status_code=status)
    if not is_partial(request):
        clear_flash(request, answer)
    return answer


def is_partial(request: Request) -> bool:
    """Whether htmx asks for a fragment, and not for a page to select one from."""
    return request.headers.get("hx-request") == "true" and request.headers.get("hx-request-type") != "full"


def is_logged_in(request: Request) -> bool:
    """Whether the session has the password; always true where none is set."""
    if request.app.state.settings.password is None:
        return True
    session = request.scope.get("session", {})  # empty where a request is refused before the session is read
    return bool(session) and session.get("token") == request.app.state.sessions.token


@cache
def engine_titles() -> dict[str, str]:
    return engines.titles()


def engine_title(key: str) -> str:
    return engine_titles().get(key, key)


def suite_title(suite: Suite) -> str:
    """Returns a suite's title in the reader's language; a person's own suite has the title that they gave it."""
    return _(suite.title) if suite.key in BUILT_IN else suite.title


def _log_engine_titles() -> str:
    return enumerated(engines.log_titles(), "or")


def _has_llama_bench(key: str) -> bool:
    engine = engines.get(key)
    return engine is not None and engine.has_llama_bench


def _spread(shown: ShownMetric | Cell, unit: str = "") -> tuple[str, str]:
    return units.spread(shown.value, shown.standard_deviation, shown.low, shown.high, unit)


def _change_interval(ratio: Ratio) -> str:
    return _unbroken(units.change_interval(ratio.low, ratio.high))


def _unbroken(text: str) -> str:
    """Keeps a number and its percent sign on one line."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def _version(engine_version: str | None) -> str:
    """The version as shown; llama.cpp built without git reports b0-unknown."""
    if engine_version and "unknown" in engine_version:
        return _("build unknown")
    return engine_version or ""


def _code(text: str) -> Markup:
    """HTML with code elements for text between backticks."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704  # escaped just now


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def _when(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
