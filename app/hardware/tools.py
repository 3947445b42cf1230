"""Runs the programs that report hardware. A program that is missing, fails or hangs gives a reason, never an error."""

import json
import shutil
import subprocess
from typing import Any

from app.core.i18n import _

TIMEOUT_S = 15.0


class ToolUnavailable(Exception):
    """`message` is the reason, the end of a sentence such as `GPUs are unknown: ...`."""

    @property
    def message(self) -> str:
        text: str = self.args[0]
        return text


def run_tool(*command: str, timeout_s: float = TIMEOUT_S) -> str:
    """The standard output of a program. Raises ToolUnavailable."""
    name = command[0]
    path = shutil.which(name)
    if path is None:
        raise ToolUnavailable(_("{name} is not installed", name=name))
    try:
        result = subprocess.run(  # noqa: S603  # fixed commands, nothing typed by anyone
            [path, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ToolUnavailable(
            _("{name} did not answer within {seconds:.0f} s", name=name, seconds=timeout_s)
        ) from error
    except OSError as error:
        raise ToolUnavailable(_("{name} cannot be run: {why}", name=name, why=error.strerror)) from error
    text = result.stdout.decode("utf-8", "replace")
    if result.returncode and not text.strip():
        messages = result.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ToolUnavailable(
            _("{name} complained: {words}", name=name, words=messages[0][:200])
            if messages
            else _("{name} failed with code {code:d}", name=name, code=result.returncode)
        )
    return text


def parse_json_output(text: str, name: str) -> Any:
    """The JSON document in a program's output; some print warnings before it. Raises ToolUnavailable."""
    starts = [position for position in (text.find("{"), text.find("[")) if position >= 0]
    for start in sorted(starts):
        try:
            return json.JSONDecoder().raw_decode(text[start:])[0]
        except (ValueError, RecursionError):  # a bracket in a warning
            continue
    raise ToolUnavailable(_("{name} printed no JSON", name=name))


def parse_number(value: object) -> float | None:
    """A number as tools write it: 24576, "24576", {"value": 24576, "unit": "MB"}; None for N/A and the like."""
    if isinstance(value, dict):
        value = value.get("value")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        parsed = float(value)
    except ValueError:  # N/A and the like
        return None
    return parsed if 0 < parsed < 1e18 else None
