"""Results side by side: what differs, by how much, and what may be concluded from it.

compare_refs       what a person names: runs, configurations, `latest`
differences        what differs, and what a verdict is about
eligibility        whether two results may be compared, and if not, why
observations       the numbers of a run, or of a configuration's runs
scatter            how much runs of one configuration differ on a machine
soundness          what disturbed a run, so that no verdict may rest on it
main_verdict       the verdict of one run against another at their main workload
comparison         all of it for two to eight runs or configurations
gaps_and_ceilings  gaps between tokens, and what the hardware allows
result             what a comparison is, as plain values, and what scatter means; `to_json` makes the document
names              what the subjects are called: what differs between them
words              how a change and a verdict are worded
baseline           every run beside the one that was pinned
"""

from app.results.compare.baseline import Standing, standing, standings
from app.results.compare.comparison import compare
from app.results.compare.result import Comparison, to_json

__all__ = ["Comparison", "Standing", "compare", "standing", "standings", "to_json"]
