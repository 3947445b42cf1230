"""A second real server, of odd shape: MLX-LM on a processor, with a small model of random weights made on the spot.

Unlike llama.cpp it speaks HTTP/1.0, keeps the connection alive with comments, ignores `ignore_eos`, has no version, no
tokenizer and no counters. `python -m tests.mlx_server FOLDER` writes the model.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import httpx

from tests.needs import need
from tests.ports import free_port
from tests.waiting import until

VOCABULARY = 600
SHAPE = {
    "model_type": "qwen2",
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "eos_token_id": 0,
}


def write_model(folder: Path) -> None:
    import mlx.core as mx
    from mlx.utils import tree_flatten
    from mlx_lm.models import qwen2
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<eos>", "<user>", "<assistant>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(["the sea is wide and the boats are small, tell me a very long story"] * 50, trainer)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<eos>"
    )  # a token of text
    wrapped.chat_template = "{% for m in messages %}<user>{{ m['content'] }}{% endfor %}<assistant>"
    wrapped.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(SHAPE))
    mx.random.seed(1)
    weights = dict(tree_flatten(qwen2.Model(qwen2.ModelArgs.from_dict(SHAPE)).parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})


@contextmanager
def mlx_server(folder: Path) -> Iterator[str]:
    """Its base URL."""
    need(all(find_spec(name) for name in ("mlx", "mlx_lm")), "MLX-LM is not installed: it is part of `test` on Linux")
    need(which("g++"), "MLX compiles its kernels with g++")
    model, port = folder / "tiny", free_port()
    model.mkdir()
    subprocess.run([sys.executable, "-m", "tests.mlx_server", str(model)], check=True, capture_output=True)
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "mlx_lm", "server", "--model", str(model), "--port", str(port)]
    (folder / "cache").mkdir()  # without one it fails to list its models
    environment = {**os.environ, "HF_HUB_CACHE": str(folder / "cache"), "HF_HUB_OFFLINE": "1"}
    with (folder / "mlx.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)

    def answers() -> bool:
        assert process.poll() is None, (folder / "mlx.log").read_text()
        try:
            return httpx.get(f"{url}/health", trust_env=False).status_code == 200
        except httpx.TransportError:  # it does not listen yet
            return False

    try:
        until(answers)
        yield url
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    write_model(Path(sys.argv[1]))
