"""Every operator of the small framework, taken out: what it brings along, and that it passes on the simulated device."""

import json
import shutil
from pathlib import Path

import pytest

from astra_kernels.extraction.extract import Wanted, extract
from astra_kernels.extraction.shapes import shapes_of
from astra_kernels.importers.problem_dir import load_problem
from tests.tiers import with_sample

FRAMEWORK = Path(__file__).parent / "minillm"
OPERATORS = (
    # symbol, whether a reference of its kind is known, its file
    ("silu_and_mul", True, "activation.cu"),
    ("gelu_tanh_and_mul", True, "activation.cu"),
    ("rmsnorm", True, "norm.cu"),
    ("fused_add_rmsnorm", True, "norm.cu"),
    ("per_token_quant_fp8", False, "quant.cu"),
    ("static_quant_fp8", False, "quant.cu"),
)


@pytest.fixture
def taken(tmp_path, build_cache):
    tree = tmp_path / "minillm"  # outside of this repository, whatever is uncommitted in it
    shutil.copytree(FRAMEWORK, tree)

    def take(symbol, *, check):
        cache = build_cache if check else None
        return extract(Wanted(symbol, str(tree), tmp_path / "made", cache=cache))

    return take


@pytest.mark.parametrize("symbol, known, file", with_sample(OPERATORS, 0))
def test_an_operator_passes_on_the_simulated_device(taken, symbol, known, file):
    made = taken(symbol, check=True)
    assert made.trial.passed, made.trial.said
    assert made.own_oracle != known
    assert file in made.files
    problem = load_problem(made.directory)
    assert problem.spec.binding == "torch"
    assert problem.spec.entry_point == f"{file}::{symbol}"


@pytest.mark.parametrize("symbol, known, file", OPERATORS)
def test_workloads_have_the_sizes_of_the_framework_s_tests(taken, symbol, known, file):
    made = taken(symbol, check=False)
    problem = load_problem(made.directory)
    timed = [(w.axes["tokens"], w.axes["hidden"]) for w in problem.workloads if w.timed]
    assert len(timed) == 2
    assert (128, 8192) in timed  # of the benchmark; no list of sizes in Astra pairs them
    assert any("project's tests" in note for note in made.notes)


def test_what_a_left_out_header_includes_of_the_framework_stays(taken):
    """utils.h brings no name that silu_and_mul mentions, but the stream that it asks for."""
    made = taken("silu_and_mul", check=False)
    assert "minillm/utils.h" not in made.files
    source = (made.directory / "baseline" / "activation.cu").read_text()
    assert "#include <ATen/cuda/CUDAContext.h>" in source
    assert "#include <algorithm>" in source


def test_checked_numbers_become_constant_axes_and_optional_numbers_are_absent(taken):
    made = taken("per_token_quant_fp8", check=False)
    written = json.loads((made.directory / "definition.json").read_text())
    assert written["outputs"]["output_s"] == {"shape": ["tokens", "one"], "dtype": "float32"}
    assert written["axes"]["one"] == {"type": "const", "value": 1}
    assert written["outputs"]["output_q"]["dtype"] == "float8_e4m3fn"
    solution = json.loads((made.directory / "baseline" / "solution.json").read_text())
    assert {"name": "scale_ub", "ctype": "none"} in solution["spec"]["arguments"]
    assert any("scale_ub is not given" in note for note in made.notes)


@pytest.mark.parametrize(
    "check, shape",
    [
        ("CHECK_EQ(y.size(1), 4);", ("tokens", "size_4")),
        ('TORCH_CHECK(y.size(1) == 1, "one");', ("tokens", "one")),
        ("if (y.size(1) == 1) return;", ("tokens", "hidden")),
        ('TORCH_CHECK(y.size(1) == 2 * x.size(1), "twice");', ("tokens", "two_hidden")),
    ],
)
def test_only_checks_fix_a_size(check, shape):
    text = f"void f(Tensor& y, const Tensor& x) {{ CHECK_DIM(2, x); CHECK_DIM(2, y); {check} }}"
    assert shapes_of(text, ("y", "x"), frozenset({"y"})).shapes["y"] == shape


def test_an_export_means_the_function_of_its_own_namespace(tmp_path):
    """A patch of Astra's brings a second function of the operator's name, in a namespace of its own."""
    tree = tmp_path / "tree"
    shutil.copytree(FRAMEWORK, tree)
    twin = "namespace other {\nvoid silu_and_mul(at::Tensor& out, const at::Tensor& input) {}\n}\n"
    (tree / "csrc" / "twin.cuh").write_text(twin)
    made = extract(Wanted("silu_and_mul", str(tree), tmp_path / "made"))
    assert made.operator.function.path == "csrc/activation.cu"
