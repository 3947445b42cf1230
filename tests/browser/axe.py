"""What axe finds on a page."""

from pathlib import Path
from typing import Any

from tests.browser.chromium import Tab

VENDOR = Path(__file__).parent.parent / "vendor"
AXE = (VENDOR / "axe.min.js").read_text(encoding="utf-8")


def axe_violations(opened: Tab) -> list[str]:
    """Returns each violation on the page as it is, with the element and what to mend."""
    opened.page.evaluate(AXE)
    violations: list[dict[str, Any]] = opened.page.evaluate("axe.run(document).then(result => result.violations)")
    return [
        f"{violation['id']}: {node['html'][:160]} {node['failureSummary'][:300]}"
        for violation in violations
        for node in violation["nodes"]
    ]
