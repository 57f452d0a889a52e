"""Operators with at::Tensor: the guard reads the tensors, and a test, a benchmark and a check come along."""

import ast
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from astra_kernels.app.runs import read_run
from astra_kernels.exporters.export import Asked, export
from astra_kernels.exporters.own_test import gpu_engagement, run_test
from astra_kernels.extraction.extract import Wanted, extract
from astra_kernels.importers.problem_dir import load_problem
from astra_kernels.records.evaluation import Passed
from tests.exporting.conftest import (
    changed,
    committed,
    git,
    judged,
    measured,
    write_run,
)

TREES = Path(__file__).parents[1] / "extraction" / "trees"
SOURCE = "csrc/elementwise/activation.cu"


@pytest.fixture(scope="session")
def silu_home(made_once, build_cache):
    return made_once("exporting-silu", lambda place: _make(place, build_cache))


def _make(place, cache):
    tree = place / "engine"
    shutil.copytree(TREES / "serving_kernel", tree)
    package = tree / "python" / "serving_kernel"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (tree / "tests" / "test_silu_and_mul.py").write_text(
        "import pytest\nimport torch\nimport serving_kernel\n\n\n"
        "def test_silu():\n    torch.ops.serving_kernel.silu_and_mul(out, x)\n"
    )
    committed(tree)
    made = extract(Wanted("silu_and_mul", str(tree), place / "problem"))
    problem = load_problem(made.directory)
    edit = ("activation.cu", "<<<tokens, 256,", "<<<tokens, 512,")
    candidate = changed(problem, edit)
    evaluation = judged(problem, made.directory, candidate, place / "job", cache)
    assert isinstance(evaluation, Passed), evaluation
    timed = [w.uuid for w in evaluation.workloads if w.timing is not None]
    ratios = {uuid: 1.4 if index else 0.9 for index, uuid in enumerate(timed)}
    held = measured(evaluation, ratios)
    control = measured(evaluation, dict.fromkeys(timed, 1.0))
    write_run(place / "run", problem, made.directory, candidate, held, control=control)


@pytest.fixture(scope="session")
def silu(silu_home, made_once, build_cache):
    """Where the export lies in `out`; its proofs are in `evidence.json`."""
    return made_once("exporting-silu-out", lambda place: _export(silu_home, place, build_cache))


def _export(home, place, cache):
    trace = place / "trace.json"
    name = "void (anonymous namespace)::silu_and_mul_kernel<c10::Half>(c10::Half*)"
    own = {"cat": "kernel", "name": name, "dur": 25}
    other = {"cat": "kernel", "name": "gemm_silu_and_mul_kernel_x", "dur": 75}
    events = [own, other, {"cat": "cpu_op", "dur": 900}]
    trace.write_text(json.dumps({"traceEvents": events}))
    run = read_run(home / "run")
    asked = Asked(
        run=home / "run", tree=home / "engine", out=place / "out", cache=cache, version="0.1.0",
        trace=trace, test="test -f csrc/elementwise/activation_astra.cuh",
    )  # fmt: skip
    export(asked, run.problem, home / "run" / "problem", run.history)


def test_a_measured_winner(silu):
    evidence = json.loads((silu / "out/evidence.json").read_text())
    verdicts = {p["name"]: p["verdict"] for p in evidence["proofs"]}
    assert list(verdicts.values()) == ["established"] * 4 + ["not established"], evidence["proofs"]
    assert "could not be checked" in evidence["proofs"][4]["said"]
    text = (silu / "out/PULL_REQUEST.md").read_text()
    assert "odelled" not in text.replace("modelled only", "")
    assert "A/A control" in text and "measured 1.000x" in text
    assert "25.00%" in text and f"{1 / 0.75:.4f}" in text
    assert "1.400 [1.330, 1.474]" in text and "| no | no |" in text
    assert "driver 580.1" in text
    assert not evidence["modelled"] and evidence["end_to_end"]["share"] == 0.25
    patch = (silu / "out/astra.patch").read_text()
    assert "::confirmed(out, input)) {" in patch
    assert "input.scalar_type() == at::ScalarType::Half" in patch
    paths = [x.split(" b/")[1] for x in patch.splitlines() if x.startswith("diff --git")]
    assert paths == [
        "benchmarks/bench_silu_and_mul_astra.py",
        SOURCE,
        "csrc/elementwise/activation_astra.cuh",
        "tests/test_silu_and_mul_astra.py",
    ]


def test_the_files_that_come_along(silu):
    out = silu / "out"
    test = (out / "files/tests/test_silu_and_mul_astra.py").read_text()
    benchmark = (out / "files/benchmarks/bench_silu_and_mul_astra.py").read_text()
    check = (out / "check_engagement.py").read_text()
    for text in (test, benchmark, check):
        tree = ast.parse(text)
        calls = [ast.unparse(n) for n in ast.walk(tree) if isinstance(n, ast.Call)]
        assert any(c.startswith("torch.ops.serving_kernel.silu_and_mul(") for c in calls)
        assert "import serving_kernel\n" in text
        sizes = next(
            ast.literal_eval(n.value)
            for n in tree.body
            if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "SIZES"
        )
        assert {inside for _, inside in sizes} == {True, False}
    reference = test[test.index("# What follows is the reference") :]
    names: dict[str, object] = {}
    exec(compile(reference, "reference", "exec"), names)
    (got,) = names["reference_fp64"](np.array([[0.0, 1.0, 2.0, 3.0]]))
    assert got.shape == (1, 2) and got[0, 0] == 0.0


def test_what_a_gpu_showed_is_taken_in(tmp_path):
    report = tmp_path / "report.json"
    for wrong in (False, True):
        rows = [
            {"axes": {"tokens": 1}, "inside": True, "kernels": ["void astra_1::k()"]},
            {"axes": {"tokens": 2}, "inside": False, "kernels": ["void k()"]},
        ]
        rows[wrong]["kernels"] = ["void astra_1::k()"]
        if wrong:
            rows[1]["kernels"].append("void k()")
        report.write_text(json.dumps({"namespace": "astra_1", "gpu": "NVIDIA H200", "rows": rows}))
        seen = gpu_engagement(report, "astra_1")
        assert (seen.established, seen.failed) == (not wrong, wrong), seen


def test_a_test_that_fails_or_hangs_is_said(tmp_path):
    failed = run_test("echo two tests failed; exit 3", tmp_path, 60.0)
    assert failed.failed and "two tests failed" in failed.said
    hung = run_test("sleep 60", tmp_path, 0.5)
    assert not hung.established and not hung.failed and "did not end" in hung.said
    assert run_test("true", tmp_path, 60.0).established


def test_only_the_guard_and_an_include_are_new_in_the_operators_file(silu_home, silu, tmp_path):
    tree = tmp_path / "engine"
    shutil.copytree(silu_home / "engine", tree)
    git(tree, "apply", str(silu / "out/astra.patch"))
    lines = git(tree, "diff", "--unified=0", "--", SOURCE).splitlines()
    added = [x[1:] for x in lines if x.startswith("+") and not x.startswith("+++")]
    assert added[0] == '#include "activation_astra.cuh"'
    assert [x.strip()[:2] for x in added[1:]] == ["if", "re", "}"]
    assert not [x for x in lines if x.startswith("-") and not x.startswith("---")]
