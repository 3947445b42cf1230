"""What to know before believing a chart, and what to do where there is none."""

from app.charts.explore.shape import Sheet
from app.charts.explore.table import words


def notes(sheet: Sheet) -> list[str]:
    """One sentence each; empty where the marks say all there is."""
    said = []
    values = {mark.x for mark in sheet.marks}
    if len(values) == 1 and sheet.x.is_discrete and not sheet.view.at:
        (only,) = values
        said.append(f"Every run here has {sheet.x.lower_title} {words(only)}: {sheet.x.remedy}.")
    if sheet.mixed:
        *more, last = [field.lower_title for field in sheet.mixed]
        names = f"{', '.join(more)} and {last}" if more else last
        said.append(f"Some marks stand for runs that differ in {names}: a filter, or a series for each, parts them.")
    return said + [left.words for left in sheet.left_out if not sheet.view.at]


def nothing(sheet: Sheet) -> tuple[str, str]:
    """A heading and a sentence for a chart without marks."""
    if sheet.matching_runs and sheet.left_out:
        return f"No run here has {sheet.y.lower_title} by {sheet.x.lower_title}", sheet.left_out[0].words
    if sheet.view.is_filtered:
        return "No finished run matches", "Choose less, or measure what you are looking for."
    return "Nothing to explore yet", "Every finished run adds to it."
