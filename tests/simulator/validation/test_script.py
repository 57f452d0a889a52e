"""The script that runs on a GPU machine, as far as it runs without a GPU."""

import json
import os
import subprocess
import sys

import pytest

from tests.simulator.validation.corpus import CHECKED

# The GPU machine has none of these.
LIGHT = """
import runpy, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pydantic", "ml_dtypes", "torch", "rich", "cyclopts", "tree_sitter"):
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def folder(repository, toolchain, build_cache, tmp_path_factory):
    out = tmp_path_factory.mktemp("validation")
    script = str(repository / "scripts" / "gpu" / "validate.py")
    command = [sys.executable, "-c", LIGHT, script, "--out", str(out), "--cache", str(build_cache)]
    command += ["--device", "sim:h200", "--only", "outputs"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    return out


def test_the_simulated_device_gives_outputs_too(folder):
    report = json.loads((folder / "validation.json").read_text())
    outputs = json.loads((folder / "outputs.json").read_text())
    assert report["outputs"] == "done"
    assert report["opened"] == "sim:h200"
    present = {p.name for p in CHECKED if p.source not in report["missing"]}
    assert set(outputs) == present
    assert all(found["outputs"] for found in outputs.values())


def test_what_was_simulated_is_not_taken_for_measured(repository, folder):
    command = [sys.executable, "-m", "tests.simulator.validation", str(folder)]
    path = {**os.environ, "PYTHONPATH": str(repository / "src")}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=repository, env=path
    )
    assert done.returncode == 2
    assert "not measured" in done.stderr
    assert not (folder / "comparison.json").exists()
    assert "Traceback" not in done.stderr
