"""What a test needs from the machine: without it the test skips with a reason, and in CI it fails."""

import os

import pytest


def need(condition: object, reason: str) -> None:
    """Skip the test (or the fixture's tests) unless `condition` holds; with CI=true that is a failure."""
    if condition:
        return
    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(f"CI must have what this test needs: {reason}", pytrace=False)
    pytest.skip(reason)
