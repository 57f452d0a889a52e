"""Instances of templates as operators, in a tree that is laid out as SGLang's jit kernels are."""

import shutil
from pathlib import Path

import pytest

from astra_kernels.errors import UserError
from astra_kernels.extraction.extract import Wanted, extract
from astra_kernels.extraction.finding import find_operator
from astra_kernels.extraction.instances import instance_of
from astra_kernels.extraction.project import Project, Release
from astra_kernels.importers.problem_dir import load_problem

TREE = Path(__file__).parent / "trees" / "jit_kernel"
SYMBOL = "ScaleKernel<half, 128>::run"


@pytest.fixture
def project(tmp_path):
    return Project(shutil.copytree(TREE, tmp_path / "jit_kernel"), Release("jit_kernel"))


@pytest.mark.parametrize(
    ("symbol", "written", "called"),
    [
        (SYMBOL, "ScaleKernel<half, 128>::run", "(engine::ScaleKernel<half, 128>::run)"),
        ("a::b::f<Pair<int, 2>, true>", "a::b::f<Pair<int, 2>, true>", "(engine::f<Pair<int, 2>, true>)"),
        (" X < float > :: run", None, None),
        ("silu_and_mul", None, None),
        ("a::b", None, None),
        ("f<>", None, None),
    ],
)  # fmt: skip
def test_which_symbols_name_one(symbol, written, called):
    found = instance_of(symbol)
    if written is None:
        assert found is None or found.name == "X"
        return
    assert found.written == written
    assert found.called("engine") == called
    assert instance_of(found.written) == found


@pytest.mark.parametrize(
    ("arguments", "element"),
    [("half, 4", "float16"), ("4, bf16_t", "bfloat16"), ("float", "float32"), ("int, true", "")],
)
def test_the_element_type_is_that_of_the_arguments(arguments, element):
    assert instance_of(f"K<{arguments}>::run").element == element


def test_it_has_the_name_of_the_python_code_and_keywords_become_names(project):
    operator = find_operator(project, SYMBOL)
    assert operator.symbol == "scale_by"
    assert [p.name for p in operator.function.parameters] == ["out", "in_", "factor"]
    assert operator.called == "(ScaleKernel<half, 128>::run)" and operator.defined == "ScaleKernel"
    (project.root / "scale.py").unlink()
    assert find_operator(project, SYMBOL).symbol == "scale_kernel"


@pytest.mark.parametrize(
    ("symbol", "message"),
    [
        ("NoKernel<half>::run", "no class template with this member"),
        ("ScaleKernel<half, 128>::walk", "no class template with this member"),
        ("ScaleKernel<half, 128>", "no function template"),
        ("ScaleKernel<half, 128>::threads", "that take TensorView"),
        ("scale_kernel<half, 128>", "that take TensorView"),
    ],
)
def test_what_is_none_is_refused(project, symbol, message):
    with pytest.raises(UserError, match=message):
        find_operator(project, symbol)


@pytest.mark.tvm_ffi
def test_it_is_taken_out_verified_and_the_same_as_the_whole_original(
    project, tmp_path, build_cache
):
    wanted = Wanted(SYMBOL, str(project.root), tmp_path / "made", cache=build_cache, compare=True)
    made = extract(wanted)
    assert made.trial.passed, made.trial.said
    assert made.files == ("scale.cu", "jit/launch.cuh")
    assert any("outputs are equal" in note for note in made.notes), made.notes
    problem = load_problem(made.directory)
    assert problem.provenance.entry.name == SYMBOL
    assert problem.definition.inputs["in_"].dtype == "float16"
    source = problem.baseline.sources["scale.cu"]
    assert "TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale_by, (ScaleKernel<half, 128>::run));" in source
    assert "Unrelated" not in source
