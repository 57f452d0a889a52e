"""Every example is a valid problem directory, and says of itself what is true."""

import json

import pytest
from example_problems import EXAMPLES, NAMES, OPERATORS, definition_of, each_problem, workloads_of

from astra_kernels.importers.problem_dir import load_problem
from astra_kernels.records.expressions import evaluate
from astra_kernels.records.solution import Solution

PAPER_SHAPES = {
    "silu": {(16, 4096), (32, 5120), (64, 8192), (16, 12288)},
    "rmsnorm": {(256, 4096), (1024, 4096), (128, 11008), (512, 14336)},
    "merge": {(512, 32, 256), (512, 40, 128), (768, 32, 256), (512, 64, 128)},
}
every_name = pytest.mark.parametrize("name", NAMES)


def solution_of(name):
    return Solution.model_validate_json((EXAMPLES / name / "baseline/solution.json").read_text())


def test_the_operators_of_the_paper_are_there_twice_per_element_type():
    assert len(NAMES) == 12
    assert {n.removesuffix("_bf16") for n in NAMES} == {n for n in NAMES if "bf16" not in n}


@each_problem()
def test_it_loads(name):
    problem = load_problem(EXAMPLES / name)
    assert problem.name == name
    if name.startswith("flashinfer"):
        assert any(path.startswith("flashinfer/") for path in problem.baseline.sources)


@every_name
def test_names_agree(name):
    assert definition_of(name).name == solution_of(name).definition == name


@every_name
def test_workloads_fit_the_definition(name):
    definition, workloads = definition_of(name), workloads_of(name)
    for workload in workloads:
        workload.check_against(definition)
    assert len({w.uuid for w in workloads}) == len(workloads)
    assert 8 <= len(workloads) <= 12


@every_name
def test_the_shapes_of_the_paper_are_timed(name):
    timed = {tuple(w.axes.values()) for w in workloads_of(name) if w.timed}
    assert timed >= PAPER_SHAPES[OPERATORS[name]]


@every_name
def test_odd_sizes_are_checked_where_they_are_legal(name):
    innermost = [tuple(w.axes.values())[-1] for w in workloads_of(name)]
    has_odd = any(size % 8 for size in innermost)
    assert has_odd != (name.startswith("flashinfer") and OPERATORS[name] == "merge")


@every_name
def test_the_arguments_carry_every_input_output_and_axis(name):
    definition = definition_of(name)
    arguments = {a.name for a in solution_of(name).spec.resolved_arguments(definition)}
    separate = {n for n, o in definition.outputs.items() if o.in_place_of is None}
    assert arguments == {*definition.inputs, *separate, *definition.var_axes, "stream"}


@every_name
def test_the_solution_lists_every_file_of_the_baseline(name):
    there = {p.name for p in (EXAMPLES / name / "baseline").iterdir()} - {"solution.json"}
    assert {s.path for s in solution_of(name).sources} == there


@every_name
def test_the_byte_count_is_every_tensor_once_each_way(name):
    definition = definition_of(name)
    unaided = definition.model_copy(update={"bytes": None})
    for workload in workloads_of(name):
        axes = definition.resolve_axes(workload.axes)
        assert definition.minimum_bytes(axes) == unaided.minimum_bytes(axes)
        assert evaluate(definition.flops, axes) > 0


@pytest.mark.parametrize("name", [n for n in NAMES if not n.endswith("_bf16")])
def test_the_element_type_is_all_that_differs_between_twins(name):
    wide, narrow = definition_of(name), definition_of(f"{name}_bf16")
    as_wide = json.loads(narrow.model_dump_json().replace("bfloat16", "float16"))
    as_wide["name"], as_wide["tolerance"] = name, wide.model_dump(mode="json")["tolerance"]
    assert as_wide == wide.model_dump(mode="json")
    assert narrow.tolerance.max_rtol == 8 * wide.tolerance.max_rtol
    assert [w.axes for w in workloads_of(name)] == [w.axes for w in workloads_of(f"{name}_bf16")]


@pytest.mark.parametrize(
    "heads, dim, legal",
    [
        (64, 128, True),
        (65, 128, False),
        (32, 512, True),
        (33, 256, False),
        (128, 64, True),
        (8, 192, False),
    ],
)
def test_flashinfers_merge_takes_what_fits_in_one_block(heads, dim, legal):
    definition = definition_of("flashinfer_merge_state")
    sizes = {"seq_len": 3, "num_heads": heads, "head_dim": dim}
    if legal:
        assert definition.resolve_axes(sizes) == sizes
    else:
        with pytest.raises(ValueError, match="constraint"):
            definition.resolve_axes(sizes)
