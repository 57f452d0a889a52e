"""How Python reaches an operator, where its tests and benchmarks are, and which reference a test gets."""

import ast

import pytest

from astra_kernels.exporters.python_call import python_call
from astra_kernels.exporters.scripts import tree_files, unable
from astra_kernels.extraction.project import Project, Release
from astra_kernels.importers.problem_dir import load_problem
from astra_kernels.records.provenance import OriginalFile, OriginalFunction, Provenance
from tests.bindings.conftest import PROBLEMS

TEST = """\
from engine import _custom_ops as ops
import torch

def test_silu():
    torch.ops._C.silu_and_mul(out, x)
"""


@pytest.fixture
def problem():
    made = load_problem(PROBLEMS / "torch_silu_and_mul")
    entry = OriginalFunction(name="silu_and_mul", file="csrc/activation.cu", line=1)
    file = OriginalFile(
        path_in_problem="csrc/activation.cu",
        path_in_tree="csrc/activation.cu",
        sha256="0" * 64,
        whole=True,
    )
    provenance = Provenance(framework="engine", symbol="silu_and_mul", entry=entry, files=(file,))
    return made.model_copy(update={"provenance": provenance})


@pytest.fixture
def tree(tmp_path):
    def make(*files):
        for path in files:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(TEST if "test" in path else "")
        return Project(tmp_path, Release("engine"))

    return make


@pytest.mark.parametrize(
    ("files", "benchmarks"),
    [
        (("tests/kernels/test_act.py", "benchmarks/kernels/x.py"), "benchmarks"),
        (("tests/test_act.py", "benchmark/x.py"), "benchmark"),
        (("kernel/tests/test_act.py", "benchmarks/x.py"), "kernel/benchmarks"),
        (("tests/test_act.py",), "benchmarks"),
    ],
)
def test_benchmarks_are_beside_the_tests(tree, problem, files, benchmarks):
    call = python_call(tree("engine/__init__.py", "engine/_custom_ops.py", *files), problem)
    assert call.benchmarks == benchmarks
    assert files[0].startswith(f"{call.tests}/")


@pytest.mark.parametrize("root", ["", "python/", "src/"])
def test_a_module_that_a_test_imports_from_its_package_is_imported_by_its_name(tree, problem, root):
    package = f"{root}engine/__init__.py"
    call = python_call(tree("tests/test_act.py", package, f"{root}engine/_custom_ops.py"), problem)
    assert call.imports == ("import engine._custom_ops",)
    assert call.callable == "torch.ops._C.silu_and_mul"


def test_what_is_no_module_is_reached_by_its_package(tree, problem):
    call = python_call(tree("tests/test_act.py", "engine/__init__.py"), problem)
    assert call.imports == ("import engine",)


class Change:
    """As much of a change as scripts ask for."""

    namespace, new_path, regions = "astra_x", "csrc/activation_astra.cuh", ()

    class guard:
        capability = 90


@pytest.mark.parametrize(
    ("reference", "function", "given"),
    [
        ("import numpy as np\ndef reference_fp64(input): ...\ndef run(input): ...", "reference_fp64", ".numpy()"),
        ("import numpy as np\ndef run(input): ...", "run", ".numpy()"),
        ("from __future__ import annotations\nimport torch.nn.functional as F\ndef run(input): ...", "run", ""),
        ("from torch import nn\ndef run(input): ...", "run", ""),
    ],
)  # fmt: skip
def test_a_test_calls_the_reference_with_float64_of_its_own_kind(
    tree, problem, reference, function, given
):
    problem = problem.model_copy(update={"reference": reference})
    call = python_call(tree("tests/test_act.py", "engine/__init__.py"), problem)
    assert unable(problem, call) == ""
    text = tree_files(problem, Change, call)[f"tests/test_{problem.name}_astra.py"]
    ast.parse(text)
    assert f'wanted = {function}(tensors["x"].double().cpu(){given})' in text
    assert "__future__" not in text
