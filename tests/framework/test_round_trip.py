"""Out of the framework, made faster, and back into it: the real commands, the real loop, the simulated device."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from astra_kernels.extraction.extract import Wanted, extract

FRAMEWORK = Path(__file__).parent / "minillm"


def git(tree, *words):
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words]
    return subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True).stdout


def copied(place):
    """The framework in a repository of its own."""
    ignored = shutil.ignore_patterns("build", "*.so", "__pycache__")
    shutil.copytree(FRAMEWORK, place, ignore=ignored)
    git(place, "init", "--quiet")
    git(place, "add", "--all")
    git(place, "commit", "--quiet", "--message", "as it was")
    return place


def sources_of(problem):
    return {p.name: p.read_text() for p in (problem / "baseline").rglob("*.cuh")}


def astra(place, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "astra_kernels", *map(str, arguments)],
        cwd=place, env={**os.environ, "ASTRA_MEMORY": str(place / "memory.jsonl")}, text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture(scope="module")
def optimized(made_once):
    """A directory with the tree, the problem and the run of one short search."""

    def make(place):
        tree = copied(place / "tree")
        extract(Wanted("silu_and_mul", str(tree), place / "problem"))
        done = astra(
            place, "optimize", "problem", "--device", "sim:h200", "--run", "run", "--rounds", "1",
            "--strategy", "linear", "--candidates-per-round", "2", "--plans-per-round", "2", "--json",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        (place / "optimize.json").write_text(done.stdout)

    return made_once("minillm-silu", make)


def test_the_loop_finds_a_modelled_gain_in_the_plain_kernel(optimized):
    result = json.loads((optimized / "optimize.json").read_text())
    best = next(a for a in result["attempts"] if a["candidate"] == result["best"])
    timing = best["evaluation"]["geomean"]
    assert timing["kind"] == "modelled"
    assert timing["gain"] > 1 + timing["model_error"]
    assert result["second_looks"][-1]["holds"]


def test_the_winner_is_a_flashinfer_bench_solution_for_torch(optimized, tmp_path):
    from astra_kernels.app.runs import read_run
    from astra_kernels.exporters.flashinfer_bench.dataset import write_flashinfer_bench

    run = read_run(optimized / "run")
    written = write_flashinfer_bench(run.problem, run.history, tmp_path / "out")
    assert written.traces == 0 and written.untimed > 0
    (path,) = (tmp_path / "out" / "solutions").rglob("*.json")
    solution = json.loads(path.read_text())
    assert solution["spec"]["binding"] == "torch"
    assert solution["spec"]["entry_point"] == "activation.cu::astra_run"


def test_the_exported_patch_applies_and_the_operator_verifies_again(optimized, tmp_path):
    pytest.importorskip("astra_kernels.exporters.export")
    out = tmp_path / "export"
    done = astra(
        tmp_path,
        "export",
        optimized / "run",
        "--to",
        optimized / "tree",
        "--modelled",
        "--out",
        out,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (patch,) = out.glob("*.patch")
    tree = copied(tmp_path / "tree")
    git(tree, "apply", str(patch))
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "patched")
    again = extract(Wanted("silu_and_mul", str(tree), tmp_path / "again"))
    assert any("namespace astra_" in text for text in sources_of(again.directory).values())
    verified = astra(tmp_path, "verify", "again", "again/baseline", "--device", "sim:h200")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "modelled" in (out / "PULL_REQUEST.md").read_text()


@pytest.fixture(scope="module")
def script():
    """scripts/gpu/round_trip.py as a module."""
    path = Path(__file__).parents[2] / "scripts" / "gpu" / "round_trip.py"
    spec = importlib.util.spec_from_file_location("round_trip", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["round_trip"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["round_trip"]


def test_a_patch_is_applied_to_a_copy_inside_of_another_repository(script, tmp_path):
    tree = copied(tmp_path / "tree")
    source = tree / "csrc" / "activation.cu"
    source.write_text(source.read_text().replace("expf(-x)", "__expf(-x)"))
    patch = tmp_path / "change.patch"
    patch.write_text(git(tree, "diff"))
    git(tmp_path, "init", "--quiet")
    copy = script._copy(FRAMEWORK, tmp_path / "out" / "new")
    step = script._patched(copy, patch, 1)
    assert step.passed, step.tail
    assert "__expf(-x)" in (copy / "csrc" / "activation.cu").read_text()
    assert not script._patched(copy, patch, 1).passed  # it is applied already
    other = script._copy(FRAMEWORK, tmp_path / "out" / "other")
    assert not script._patched(other, patch, 2).passed  # the paths do not fit


def test_without_torch_the_build_is_told_to_fail_and_nothing_is_tested(script, tmp_path):
    if importlib.util.find_spec("torch"):
        pytest.skip("torch is installed here")
    built, tested = script._built_and_tested(script._copy(FRAMEWORK, tmp_path / "old"), "old", 1)
    assert not built.passed and "torch is not installed" in built.tail
    assert tested.status is None and tested.tail == "it is not built"
