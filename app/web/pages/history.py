"""How metrics changed over time. All state of the page is in its address."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from sqlmodel import Session
from starlette.requests import Request
from starlette.responses import Response

from app import charts
from app.charts.history.traces import CONFIGURATION
from app.core.errors import BadInput
from app.core.i18n import _, english
from app.db import configs
from app.db.configs import ConfigDescription
from app.metrics import HEADLINE_METRICS, metrics
from app.metrics.base import Metric
from app.results import hardware
from app.results.ceiling import config_ceilings
from app.results.fields.run import filtered_series_keys, series_context, series_text, series_titles
from app.results.history.level_shifts import drifts, shifts
from app.results.history.series import history
from app.results.run_filter import RunFilter
from app.suites import DEFAULT_SUITE
from app.web.deps import ReadSession
from app.web.filter_choices import filter_choices
from app.web.paths import path_for
from app.web.templates import engine_titles, is_partial, render


@dataclass(frozen=True)
class FieldFilter:
    """Shows only configurations with this value of a field; the value in English."""

    field: str
    value: str

    @classmethod
    def read(cls, text: str) -> "FieldFilter":
        """Parse `field:value`. Raises BadInput."""
        key, colon, value = text.partition(":")
        if not colon:
            raise BadInput(
                _("What to show is written field:value, such as quantization:Q4_K_M; {text!r} is not.", text=text[:80])
            )
        return cls(key, value)

    def __str__(self) -> str:
        return f"{self.field}:{self.value}"


@dataclass(frozen=True)
class HistoryView:
    """What a history shows: runs, metric, and how series are made."""

    where: RunFilter
    metric: str = ""
    """A metric's key; empty: the headline metrics."""
    by: str = CONFIGURATION
    only: tuple[FieldFilter, ...] = ()

    def __post_init__(self) -> None:
        if self.metric and self.metric not in metrics():
            raise BadInput(
                _(
                    "A history shows one of {value}; {metric!r} is not a metric.",
                    value=", ".join(metrics()),
                    metric=self.metric,
                )
            )

    @property
    def metrics(self) -> Sequence[Metric]:
        """The metrics of its panels, from the top."""
        return [metrics()[key] for key in ([self.metric] if self.metric else HEADLINE_METRICS)]

    @property
    def query(self) -> str:
        """The query of the address, without defaults."""
        pairs = [(key, value) for key, value in self.where.active.items()]
        pairs += [("metric", self.metric), ("by", self.by if self.by != CONFIGURATION else "")]
        pairs += [("only", str(field_filter)) for field_filter in self.only]
        return urlencode([(key, value) for key, value in pairs if value])

    def narrowed(self, value: str) -> "HistoryView":
        """The view of one of its series: of a configuration by its fingerprint, or of one value of the field."""
        if self.by == CONFIGURATION:
            return replace(self, where=replace(self.where, config=value))
        return replace(self, by=CONFIGURATION, only=(*self.without(self.by).only, FieldFilter(self.by, english(value))))

    def without(self, field: str) -> "HistoryView":
        """The view without the filter of a field."""
        return replace(self, only=tuple(field_filter for field_filter in self.only if field_filter.field != field))

    def config_ids(
        self, configs: Mapping[int, ConfigDescription], engine_titles: Mapping[str, str]
    ) -> list[int] | None:
        """The configurations that match all filters; None without filters."""
        if not self.only:
            return None
        contexts = {config_id: series_context(config, engine_titles) for config_id, config in configs.items()}
        return [
            config_id
            for config_id, context in contexts.items()
            if all(english(series_text(only.field, context)) == only.value for only in self.only)
        ]


def parse_grouping(text: str, configs: Mapping[int, ConfigDescription]) -> str:
    """The key of the field that series are made by; the configuration without one. Raises BadInput."""
    titles = groupings(configs)
    if text and text not in titles:
        raise BadInput(
            _(
                "Series are made by one of {fields}; {text!r} is not one of them.",
                fields=", ".join(titles),
                text=text[:40],
            )
        )
    return text or CONFIGURATION


def filterable_values(
    configs: Mapping[int, ConfigDescription], engine_titles: Mapping[str, str]
) -> list[tuple[str, list[tuple[FieldFilter, str]]]]:
    """Choices for fields without a filter of their own, each with its words, by the title of the field."""
    contexts = [series_context(config, engine_titles) for config in configs.values()]
    filtered = filtered_series_keys()
    choices = []
    for key, title in series_titles(configs.values()).items():
        values = sorted({series_text(key, context) for context in contexts})
        if key not in filtered and len(values) > 1:
            choices.append((title, [(FieldFilter(key, english(value)), value) for value in values]))
    return choices


def groupings(configs: Mapping[int, ConfigDescription]) -> dict[str, str]:
    """The fields that series can be made by: titles by key."""
    return {CONFIGURATION: _("Configuration"), **series_titles(configs.values())}


router = APIRouter(include_in_schema=False)


@router.get("/history", name="history")
def show_history(
    request: Request,
    session: ReadSession,
    metric: str = "",
    by: str = "",
    only: Annotated[Sequence[str], Query()] = (),
) -> Response:
    """Shows the history of one suite, since speeds at different prompt lengths are not comparable."""
    choices = filter_choices(session)
    config_by_id = configs.describe(session)
    where, problems = RunFilter.parse_leniently(request.query_params)
    where = replace(where, suite=where.suite or _default_suite(choices["suite"]))
    error, figure, hidden = None, None, 0
    try:
        if problems:
            raise BadInput(problems[0])
        narrowed = tuple(FieldFilter.read(text) for text in only if text)
        view = HistoryView(where, metric, parse_grouping(by, config_by_id), narrowed)
        figure, hidden = _history_figure(request, session, view, config_by_id)
    except BadInput as bad_input:
        view, error = HistoryView(where), bad_input
    response = render(
        request,
        "_history.html" if is_partial(request) else "history.html",
        status=error.http_status if error else 200,
        error=error,
        figure=figure,
        view=view,
        hidden=hidden,
        choices=choices,
        metrics=metrics(),
        groupings=groupings(config_by_id),
        values=filterable_values(config_by_id, engine_titles()),
        is_filtered=bool(request.query_params),
    )
    if not error:  # the address of the current view, for readers whose choices are made by scripts
        response.headers["hx-push-url"] = f"{path_for(request, 'history')}?{view.query}"
    return response


def _history_figure(
    request: Request, session: Session, view: HistoryView, config_by_id: Mapping[int, ConfigDescription]
) -> tuple[charts.Figure | None, int]:
    """The figure, None without data, and the number of hidden runs it leaves out."""
    shown = view.metrics
    ids = view.config_ids(config_by_id, engine_titles())
    points, hidden = history(session, view.where, [metric.key for metric in shown], ids)
    path = path_for(request, "history")
    run_path = path_for(request, "run", public_id="0").removesuffix("0")  # once, not for thousands of points
    changes = hardware.timelines(session).all_changes()
    figure = charts.history(
        points,
        config_by_id,
        shown,
        run_link=lambda public_id: run_path + public_id,
        by=view.by,
        series_link=None if view.by == "label" else lambda value: f"{path}?{view.narrowed(value).query}",
        engine_titles=engine_titles(),
        roofs={
            config_id: config_ceiling.ceiling.tokens_per_s
            for (config_id, suite_key), config_ceiling in config_ceilings(session).items()
            if suite_key == view.where.suite
        },
        shifts=shifts(points, len(shown), changes),
        drifts=drifts(points, len(shown), changes),
        hardware=changes,
    )
    return figure, hidden


def _default_suite(suites: Sequence[tuple[str, str]]) -> str | None:
    keys = [key for key, _ in suites]
    return DEFAULT_SUITE if DEFAULT_SUITE in keys or not keys else keys[0]
