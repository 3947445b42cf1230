"""What to know before believing a chart, and what to do where there is none."""

from app.charts.explore.table import words
from app.core.i18n import _, enumerated, lower_first
from app.results.explore.aggregate import ExploreResult


def notes(sheet: ExploreResult) -> list[str]:
    """One sentence each; empty where the marks say all there is."""
    said = []
    values = {mark.x for mark in sheet.marks}
    if len(values) == 1 and sheet.x.is_discrete and not sheet.view.at:
        (only,) = values
        said.append(
            _(
                "Every run here has {x} {only}: {remedy}.",
                x=lower_first(sheet.x.title),
                only=words(only),
                remedy=sheet.x.remedy,
            )
        )
    if sheet.mixed:
        names = enumerated(lower_first(field.title) for field in sheet.mixed)
        said.append(
            _(
                "Some marks stand for runs that differ in {names}: a filter, or a series for each, parts them.",
                names=names,
            )
        )
    return said + [left.words for left in sheet.left_out if not sheet.view.at]


def nothing(sheet: ExploreResult) -> tuple[str, str]:
    """A heading and a sentence for a chart without marks."""
    if sheet.matching_runs and sheet.left_out:
        return _(
            "No run here has {y} by {x}",
            y=lower_first(sheet.y.title),
            x=lower_first(sheet.x.title),
        ), sheet.left_out[0].words
    if sheet.view.is_filtered:
        return _("No finished run matches"), _("Choose less, or measure what you are looking for.")
    return _("Nothing to explore yet"), _("Every finished run adds to it.")
