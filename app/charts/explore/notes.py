"""What to know before believing a chart, and what to do where there is none."""

from app.core.i18n import _, lower_first
from app.results.explore.aggregate import ExploreResult
from app.results.fields.field import format_value


def notes(result: ExploreResult) -> list[str]:
    """One sentence each; empty where the data points need no explanation."""
    sentences = []
    x_values = {data_point.x for data_point in result.data_points}
    if len(x_values) == 1 and result.x.is_discrete and not result.view.at:
        (only_value,) = x_values
        sentences.append(
            _(
                "Every run here has {x} {only}: {remedy}.",
                x=lower_first(result.x.title),
                only=format_value(only_value),
                remedy=result.x.remedy,
            )
        )
    if result.heterogeneous:
        *more, last = [lower_first(field.title) for field in result.heterogeneous]
        names = _("{more} and {last}", more=", ".join(more), last=last) if more else last
        sentences.append(
            _(
                "Some marks stand for runs that differ in {names}: a filter, or a series for each, parts them.",
                names=names,
            )
        )
    return sentences + [exclusion_count.text for exclusion_count in result.exclusions if not result.view.at]


def empty_text(result: ExploreResult) -> tuple[str, str]:
    """A heading and a sentence for a chart without data points."""
    if result.matching_runs and result.exclusions:
        return _(
            "No run here has {y} by {x}",
            y=lower_first(result.y.title),
            x=lower_first(result.x.title),
        ), result.exclusions[0].text
    if result.view.is_filtered:
        return _("No finished run matches"), _("Choose less, or measure what you are looking for.")
    return _("Nothing to explore yet"), _("Every finished run adds to it.")
