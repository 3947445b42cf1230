"""Other tools on the same replayed stream in the same run, beside ours; each in an environment of its own."""

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.fidelity import bare, ours
from tests.bench.replayed import is_faithful, server
from tests.bench.table import Figure

RATE, COUNT, ROUNDS = 50, 100, 5
INSTALL_TIMEOUT_S, RUN_TIMEOUT_S = 600, 300

OURS = "roofmark"

Seen = tuple[float, float]
"""TTFT in ms and decode in tok/s: medians over the rounds."""

TOKENIZER = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
words = ["<unk>", *"the sea is wide and boats are small hello word".split()]
made = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="<unk>"))
made.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>").save_pretrained(sys.argv[1])
"""

CLIENT = """
import json, sys, time
from openai import OpenAI
client, rows = OpenAI(base_url=sys.argv[1], api_key="none"), []
for _ in range(int(sys.argv[2])):
    began, times, n = time.perf_counter(), [], 0
    asked = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    for chunk in client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **asked):
        now = time.perf_counter()
        n = chunk.usage.completion_tokens if chunk.usage else n
        times += [now] * bool(chunk.choices and chunk.choices[0].delta.content)
    rows.append(((times[0] - began) * 1000, (n - 1) / (times[-1] - times[0])))
print(json.dumps(rows))
"""


def llama_benchy(folder: Path, python: Path, port: int) -> Seen:
    tokenizer, result = folder / "tokenizer", folder / "result.json"
    _run(python, "-c", TOKENIZER, str(tokenizer))
    url = f"http://127.0.0.1:{port}"
    options = {
        "--base-url": f"{url}/v1",
        "--model": "m",
        "--tokenizer": str(tokenizer),
        "--book-url": f"{url}/book",
        "--pp": "512",
        "--tg": str(COUNT),
        "--runs": str(ROUNDS),
        "--latency-mode": "none",
        "--format": "json",
        "--save-result": str(result),
    }
    words = [word for option in options.items() for word in option]
    _run(python, "-m", "llama_benchy", *words, "--no-warmup", "--skip-coherence", "--no-adapt-prompt")
    (benchmark,) = json.loads(result.read_text())["benchmarks"]
    return statistics.median(benchmark["e2e_ttft"]["values"]), statistics.median(benchmark["tg_throughput"]["values"])


def openai_client(_: Path, python: Path, port: int) -> Seen:
    """What a script of ten lines around the official client sees."""
    rows = json.loads(_run(python, "-c", CLIENT, f"http://127.0.0.1:{port}/v1", str(ROUNDS)))
    ttft, decode = (statistics.median(column) for column in zip(*rows, strict=True))
    return ttft, decode


PEERS: dict[str, Callable[[Path, Path, int], Seen]] = {"llama-benchy": llama_benchy, "openai": openai_client}
"""By the name of the package."""


def run() -> Iterator[Figure | str]:
    with server(RATE, COUNT) as port:
        bare(port, COUNT), ours(port, COUNT)
        rows = [(*bare(port, COUNT)[:2], *ours(port, COUNT)) for _ in range(ROUNDS)]
        ttft, decode, our_ttft, our_decode = (statistics.median(column) for column in zip(*rows, strict=True))
        yield from _figures(OURS, (our_ttft, our_decode), ttft, decode)
        for name, measure in PEERS.items():
            with tempfile.TemporaryDirectory() as folder:
                try:
                    seen = measure(Path(folder), _installed(name, Path(folder)), port)
                except (subprocess.SubprocessError, OSError, ValueError, KeyError) as error:
                    yield f"--  {name} is left out: {_why(error)}"
                    continue
            yield from _figures(name, seen, ttft, decode)


def _figures(name: str, seen: Seen, ttft: float, decode: float) -> Iterator[Figure]:
    """Only ours has goals to reach."""
    goals = ("at most 1 ms later", "within 0.5 %") if name == OURS else ("-", "-")
    reached = is_faithful(seen[0], ttft), abs(seen[1] / decode - 1) <= 0.005
    yield Figure(f"{name}: TTFT", seen[0], ttft, "ms", goals[0], reached[0] or name != OURS)
    yield Figure(f"{name}: decode", seen[1], decode, "tok/s", goals[1], reached[1] or name != OURS)


def _installed(name: str, folder: Path) -> Path:
    """The Python that has it."""
    place = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True, capture_output=True, timeout=RUN_TIMEOUT_S)
    python = place / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", name]
    subprocess.run(pip, check=True, capture_output=True, timeout=INSTALL_TIMEOUT_S)
    return python


def _run(python: Path, *arguments: str) -> str:
    command, home = [str(python), *arguments], python.parents[2]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, cwd=home)
    return done.stdout


def _why(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        output = error.stderr if isinstance(error.stderr, str) else (error.stderr or b"").decode("utf-8", "replace")
        return (output.strip().splitlines() or ["it failed without a word."])[-1]
    return f"{error}"
