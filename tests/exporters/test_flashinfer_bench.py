"""Exports to FlashInfer-Bench: its own schemas, recorded runs, and every outcome."""

import json
import math
import subprocess
from pathlib import Path

import jsonschema
import pytest

from astra_kernels.app.runs import read_run
from astra_kernels.errors import RunError
from astra_kernels.exporters.flashinfer_bench.dataset import (
    bench_definition,
    bench_solution,
    write_flashinfer_bench,
)
from astra_kernels.exporters.flashinfer_bench.entry import entry_in_front
from astra_kernels.exporters.flashinfer_bench.records import BenchWorkload
from astra_kernels.exporters.flashinfer_bench.traces import traces_of
from astra_kernels.importers.problem_dir import load_problem
from astra_kernels.languages.bindings.torch import STAND_IN
from astra_kernels.languages.bindings.tvm_ffi import tvm_ffi_directory
from astra_kernels.languages.cuda.toolchain import find_toolchain
from astra_kernels.records.evaluation import (
    BuildFailed,
    Crashed,
    Incorrect,
    Passed,
    Quarantined,
    Rejected,
    TimedOut,
    Unsafe,
)
from astra_kernels.records.run import RunFinished

SCHEMAS = Path(__file__).parent / "flashinfer_bench_schema"
RECORDED = Path(__file__).parents[1] / "recorded"
EXAMPLES = Path(__file__).parents[2] / "examples"
BINDINGS = Path(__file__).parents[1] / "bindings" / "problems"


def valid(kind, text):
    """The JSON, which FlashInfer-Bench's own schema allows."""
    value = json.loads(text)
    jsonschema.validate(value, json.loads((SCHEMAS / f"{kind}.json").read_text()))
    return value


def lines(directory):
    return [line for path in directory.rglob("*.jsonl") for line in path.read_text().splitlines()]


def exported(run, out):
    """The dataset of a recorded run by kind; a run that was cut off ends with its fastest."""
    history = run.history
    if history.finished is None:
        best = history.fastest().candidate.id
        history.append(RunFinished(at="2026-11-30T12:00:00Z", elapsed_s=1, reason="", best=best))
    written = write_flashinfer_bench(run.problem, history, out, run.directory / "problem")
    (definition,) = out.glob("definitions/*/*.json")
    (solution,) = out.glob("solutions/*/*/*.json")
    return (
        written,
        valid("definition", definition.read_text()),
        valid("solution", solution.read_text()),
        [valid("trace", line) for line in lines(out / "traces")],
    )


def test_a_measured_winner_has_traces_with_latencies(tmp_path):
    run = read_run(RECORDED / "h200_silu_and_mul")
    written, definition, solution, traces = exported(run, tmp_path / "out")
    best = run.history.fastest()
    timed = {w.uuid: w for w in best.evaluation.workloads if w.timing is not None}
    assert {t["workload"]["uuid"] for t in traces} == timed.keys()
    assert written.traces == len(timed) > 0
    for trace in traces:
        timing = timed[trace["workload"]["uuid"]].timing
        evaluation = trace["evaluation"]
        assert evaluation["status"] == "PASSED"
        assert evaluation["performance"]["latency_ms"] == timing.candidate_us / 1e3
        assert evaluation["performance"]["speedup_factor"] == timing.ratio
        assert evaluation["environment"]["hardware"] == "NVIDIA_H200"
        assert 0 < evaluation["correctness"]["max_relative_error"] < 2**-10
        assert "existing kernel" in evaluation["log"]
        assert trace["solution"] == solution["name"]
        assert trace["definition"] == solution["definition"] == definition["name"]
        variable = {n for n, a in definition["axes"].items() if a["type"] == "var"}
        assert trace["workload"]["axes"].keys() == variable
    entry_file, _, symbol = solution["spec"]["entry_point"].partition("::")
    texts = {s["path"]: s["content"] for s in solution["sources"]}
    assert f"TVM_FFI_DLL_EXPORT_TYPED_FUNC({symbol}," in texts[entry_file]
    assert best.candidate.sources.items() <= texts.items()
    assert any("-use_fast_math" in note for note in written.notes)


def test_a_modelled_time_becomes_no_latency(tmp_path):
    run = read_run(RECORDED / "sigmoid")
    written, _, _, traces = exported(run, tmp_path / "out")
    assert traces == [] and written.traces == 0
    assert not (tmp_path / "out" / "traces").exists()
    beside = [valid("trace", line) for line in lines(tmp_path / "out" / "untimed")]
    assert len(beside) == written.untimed > 0
    assert all(t["evaluation"]["performance"] is None for t in beside)
    assert any("modelled gain" in t["evaluation"]["log"] for t in beside)
    assert all("speedup" not in t["evaluation"]["log"] for t in beside)
    assert {t["evaluation"]["environment"]["hardware"] for t in beside} == {"sim:h200 (simulated)"}
    listed = [valid("trace", line) for line in lines(tmp_path / "out" / "workloads")]
    assert {t["workload"]["uuid"] for t in listed} >= {t["workload"]["uuid"] for t in beside}
    assert all(t["solution"] is None and t["evaluation"] is None for t in listed)


def test_nothing_is_written_without_a_winner_or_over_what_is_there(tmp_path):
    run = read_run(RECORDED / "sigmoid")
    with pytest.raises(RunError, match="exists"):
        write_flashinfer_bench(run.problem, run.history, tmp_path)
    run.history.append(RunFinished(at="2026", elapsed_s=1, reason="", best=None))
    with pytest.raises(RunError, match="no candidate"):
        write_flashinfer_bench(run.problem, run.history, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_computed_axes_become_variable_ones_with_a_constraint():
    definition = bench_definition(load_problem(BINDINGS / "torch_silu_and_mul"))
    written = valid("definition", definition.model_dump_json())
    computed = [c for c in written["constraints"] if "==" in c]
    assert computed and all(a["type"] in ("var", "const") for a in written["axes"].values())
    assert computed[0].partition(" ==")[0] in written["axes"]
    compile(written["reference"], "reference", "exec")


SIZES = BenchWorkload(uuid="a", axes={"n": 1}, inputs={})
OTHER = BenchWorkload(uuid="b", axes={"n": 2}, inputs={})
COMMON = {"device": "cuda:0 NVIDIA H200", "environment": {"nvcc": "13.0"}}


@pytest.mark.parametrize(
    "evaluation, status, workloads",
    [
        (BuildFailed(messages=(), **COMMON), "COMPILE_ERROR", ["a", "b"]),
        (Rejected(rule="imports", detail="dlopen", **COMMON), "RUNTIME_ERROR", ["a", "b"]),
        (Crashed(stage="correctness", detail="x", workload="b", **COMMON), "RUNTIME_ERROR", ["b"]),
        (TimedOut(stage="time", limit_s=3.0, workload="a", **COMMON), "TIMEOUT", ["a"]),
        (
            Unsafe(kind="race", kernel="k", detail="x", workload="a", **COMMON),
            "RUNTIME_ERROR",
            ["a"],
        ),
        (Quarantined(reason="too fast", **COMMON), None, []),
        (Passed(workloads=(), resources=(), **COMMON), None, []),
    ],
)
def test_every_outcome_has_its_status(evaluation, status, workloads):
    definition = load_problem(EXAMPLES / "silu_and_mul").definition
    made, untimed = traces_of("s", definition, {"a": SIZES, "b": OTHER}, (evaluation, "2026"))
    assert untimed == ()
    read = [valid("trace", t.model_dump_json()) for t in made]
    assert [t["workload"]["uuid"] for t in read] == workloads
    assert {t["evaluation"]["status"] for t in read} == ({status} if status else set())
    assert all(t["evaluation"]["correctness"] is None for t in read)


@pytest.mark.parametrize(
    "expected, got, absolute, relative",
    [("2.0", "3.0", 1.0, 0.5), ("0.0", "1.0", 1.0, math.inf), ("1.0", "inf", math.inf, math.inf)],
)
def test_a_wrong_output_has_the_error_of_its_worst_place(expected, got, absolute, relative):
    wrong = Incorrect(
        workload="a", axes={}, output="out", index=(0,), expected=expected, got=got, rule="r",
        mismatches=1, elements=8, **COMMON,
    )  # fmt: skip
    definition = load_problem(EXAMPLES / "silu_and_mul").definition
    (made,), _ = traces_of("s", definition, {"a": SIZES}, (wrong, "2026"))
    found = json.loads(made.model_dump_json())["evaluation"]
    assert found["status"] == "INCORRECT_NUMERICAL" and found["performance"] is None
    # Infinities are strings in FlashInfer-Bench's JSON (ser_json_inf_nan of its Correctness).
    assert float(found["correctness"]["max_absolute_error"]) == absolute
    assert float(found["correctness"]["max_relative_error"]) == relative


def compiled(entry, directory, *flags):
    """Compiles the entry file to an object, and gives its undefined and defined names."""
    for name, text in entry.sources.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    toolchain = find_toolchain({"PATH": "/usr/local/bin:/usr/bin:/bin"})
    file = entry.point.partition("::")[0]
    command = [
        toolchain.nvcc,
        "-c",
        "-std=c++17",
        "-arch=sm_90",
        "-I.",
        *flags,
        file,
        "-o",
        "made.o",
    ]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = subprocess.run(
        ["nm", "made.o"], cwd=directory, capture_output=True, text=True, check=True
    )
    return names.stdout


@pytest.mark.tvm_ffi
@pytest.mark.parametrize(
    "directory",
    [EXAMPLES / "fused_add_rmsnorm", BINDINGS / "tvm_ffi_rmsnorm"],
    ids=lambda d: d.name,
)
def test_the_function_in_front_compiles_and_is_exported(directory, tmp_path):
    problem = load_problem(directory)
    entry = entry_in_front(problem, problem.baseline.sources)
    assert entry.binding == "tvm-ffi"
    names = compiled(entry, tmp_path, f"-I{tvm_ffi_directory() / 'include'}")
    assert "T __tvm_ffi_astra_run" in names


def test_the_function_in_front_of_a_torch_operator_compiles(tmp_path):
    problem = load_problem(BINDINGS / "torch_silu_and_mul")
    solution = bench_solution(
        problem, problem.baseline, Passed(workloads=(), resources=(), **COMMON)
    )
    valid("solution", solution.model_dump_json())
    assert solution.spec.binding == "torch" and solution.spec.target_hardware == ("NVIDIA_H200",)
    entry = entry_in_front(problem, problem.baseline.sources)
    assert "astra_run" in compiled(
        entry, tmp_path, f"-I{STAND_IN}", "-DTORCH_EXTENSION_NAME=made", "--expt-relaxed-constexpr"
    )
    text = entry.sources[entry.point.partition("::")[0]]
    assert 'm.def("astra_run", &astra_run)' in text


def test_outputs_in_place_are_copied_and_passed_in_place_of_the_inputs():
    problem = load_problem(EXAMPLES / "fused_add_rmsnorm")
    entry = entry_in_front(problem, problem.baseline.sources)
    text = entry.sources["astra_run.cu"]
    assert "astra_copy(residual_out, residual);" in text
    assert "residual_out.data_ptr()" in text and " residual.data_ptr()" not in text
