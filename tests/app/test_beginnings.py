"""`astra init` and `astra extract` as a user calls them."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TREES = Path(__file__).resolve().parents[1] / "extraction" / "trees"


def astra(*words, cwd):
    return subprocess.run(
        [sys.executable, "-m", "astra_kernels", *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_extract_and_its_refusals(tmp_path):
    wanted = ("extract", "rms_norm", "--from", TREES / "engine", "--no-check", "--json")
    done = astra(*wanted, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["directory"] == "rms_norm"
    assert (tmp_path / "rms_norm" / "definition.json").is_file()
    again = astra(*wanted, cwd=tmp_path)
    assert again.returncode == 2 and "rms_norm exists" in again.stderr
    unknown = astra("extract", "nothing", "--from", TREES / "engine", cwd=tmp_path)
    assert unknown.returncode == 2 and "Traceback" not in unknown.stderr


def test_init_says_what_it_guessed(tmp_path):
    (tmp_path / "twice.cu").write_text(
        "__global__ void twice(const float* x, float* y, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = 2 * x[i];\n}\n"
    )
    done = astra("init", "twice.cu", "--no-check", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "guessed" in done.stdout and "not tried" in done.stdout
    wrong = astra("init", "twice.cu", "--out", "other", "--dtype", "float4", cwd=tmp_path)
    assert wrong.returncode == 2 and "use float16" in wrong.stderr
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_extraction_that_is_cut_short_leaves_no_problem_and_can_be_made_again(tmp_path, number):
    """Wherever it was: at once, while it reads, while it tries the problem."""
    words = ("extract", "rms_norm", "--from", TREES / "engine", "--out", "made", "--no-check")
    for seconds in (0.3, 0.8, 1.3):
        process = subprocess.Popen(
            [sys.executable, "-m", "astra_kernels", *map(str, words[:-1])], cwd=tmp_path,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(seconds)
        if process.poll() is not None:  # a machine that is faster than this
            shutil.rmtree(tmp_path / "made")
            continue
        process.send_signal(number)
        process.wait(timeout=60)
        assert not (tmp_path / "made").exists()
        hidden = [p for p in tmp_path.iterdir() if p.name.startswith(".made-")]
        assert number == signal.SIGKILL or not hidden
    done = astra(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "made" / "definition.json").is_file()
