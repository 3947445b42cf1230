"""What is said about the scatter between runs."""

from app.results.compare.result import scatter_words
from app.stats.runs import RunScatter

ASSUMED = RunScatter(0.02**2, 4, None, 0.02)
SEEN = RunScatter(0.01**2, 9, 0.0, None, 0.01, 1, 10)
SHORT = RunScatter(0.01**2, 4, 0.0, 0.02, 0.01, 1, 3)
ELSEWHERE = RunScatter(0.05**2, 9, 0.0, None, 0.05, 2, 11, is_elsewhere=True)


def test_each_part_is_said_of_the_metrics_it_is_about() -> None:
    assert scatter_words({}) == ""
    assert scatter_words({"ttft_ms": ASSUMED, "decode_tokens_per_s": ASSUMED}) == (
        "No history yet: runs of one configuration are assumed to differ by 2 %."
    )
    assert scatter_words({"ttft_ms": SEEN, "decode_tokens_per_s": SEEN}) == (
        "Runs of one configuration differ by 1 % here (1 configuration, 10 runs)."
    )
    assert scatter_words({"ttft_ms": SHORT}) == (
        "Runs of one configuration differ by 1 % here (1 configuration, 3 runs). "
        "That is a short history, so it is combined with an assumed 2 %."
    )
    assert scatter_words({"ttft_ms": SEEN, "prefill_tokens_per_s": ELSEWHERE, "decode_tokens_per_s": ASSUMED}) == (
        "Runs of one configuration differ by 1 % (TTFT) here (1 configuration, 10 runs). "
        "Runs of one configuration differ by 5 % (prefill) on other machines (2 configurations, 11 runs). "
        "The rest has no history yet: runs are assumed to differ by 2 % (decode)."
    )
