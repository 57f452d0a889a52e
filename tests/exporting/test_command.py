"""`astra export` as it is typed: exit codes, and no traceback for a user's mistake."""

import json
import os
import subprocess
import sys
from pathlib import Path

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


def test_a_run_as_a_flashinfer_bench_dataset(astra, tmp_path):
    run = Path(__file__).parents[1] / "recorded" / "sigmoid"
    out = tmp_path / "dataset"
    done = astra("export", run, "--format", "flashinfer-bench", "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    written = json.loads(done.stdout)
    assert written["traces"] == 0 and written["untimed"] > 0  # its times are modelled
    assert all((out / file).is_file() for file in written["files"])


def test_an_export_needs_a_tree_exactly_if_it_is_a_patch(astra, tmp_path):
    run = Path(__file__).parents[1] / "recorded" / "sigmoid"
    for arguments, message in (
        ((), "--to"),
        (("--format", "flashinfer-bench", "--to", tmp_path), "takes --out and --json only"),
        (("--format", "tarball"), "tarball"),
    ):
        done = astra("export", run, *arguments)
        assert done.returncode == 2
        assert message in done.stderr + done.stdout
