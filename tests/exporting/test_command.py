"""`astra export` as it is typed: exit codes, and no traceback for a user's mistake."""

import json
import os
import subprocess
import sys

import pytest


@pytest.fixture
def astra(tmp_path, repository):
    def run(*words):
        done = subprocess.run(
            [sys.executable, "-m", "astra_kernels", *map(str, words)],
            cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
            env={**os.environ, "PYTHONPATH": str(repository / "src")},
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


def test_exit_codes(astra, scale):
    tree, run = scale / "engine", scale / "run"
    assert astra("export", run).returncode == 2
    refused = astra("export", scale / "nothing", "--to", tree)
    assert (refused.returncode, "no run here" in refused.stderr) == (2, True)
    modelled = astra("export", run, "--to", tree)
    assert (modelled.returncode, "--modelled" in modelled.stderr) == (1, True)
    assert not (run / "export").exists()
    done = astra("export", run, "--to", tree, "--modelled", "--test", "exit 4", "--json")
    assert done.returncode == 1, done.stderr
    said = json.loads(done.stdout)
    assert [p["verdict"] for p in said["proofs"]] == ["established"] * 3 + [
        "failed",
        "not established",
    ]
    assert (run / "export" / "astra.patch").is_file() and said["modelled"]
