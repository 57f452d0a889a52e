import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from astra_kernels.records.candidate import Candidate
from astra_kernels.records.definition import Definition
from astra_kernels.records.solution import SolutionSpec
from astra_kernels.records.workload import Workload

NORM = {
    "name": "norm",
    "axes": {
        "tokens": {"type": "var", "domain": {"min": 1, "max": 64}},
        "hidden": {"type": "var", "domain": {"min": 8, "max": 4096, "multiple_of": 8}},
        "two": {"type": "expr", "expression": "2 * hidden"},
        "four": {"type": "expr", "expression": "2 * two"},
    },
    "inputs": {
        "x": {"shape": ["tokens", "hidden"], "dtype": "float16"},
        "w": {"shape": ["hidden"], "dtype": "bfloat16"},
        "eps": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["tokens", "hidden"], "dtype": "float16", "in_place_of": "x"}},
    "constraints": ["tokens * hidden <= 65536"],
}
RANDOM = {"type": "random"}


def changed(path, value):
    """NORM with one field replaced; `...` removes it."""
    raw = copy.deepcopy(NORM)
    *parents, last = path.split(".")
    place = raw
    for key in parents:
        place = place[key]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return raw


def test_axes_resolve_through_chained_expressions():
    axes = Definition.model_validate(NORM).resolve_axes({"tokens": 3, "hidden": 16})
    assert axes == {"tokens": 3, "hidden": 16, "two": 32, "four": 64}


def test_minimum_bytes_counts_every_tensor_once_and_in_place_twice():
    definition = Definition.model_validate(NORM)
    axes = definition.resolve_axes({"tokens": 3, "hidden": 16})
    assert definition.minimum_bytes(axes) == 2 * (3 * 16) * 2 + 16 * 2


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("inputs.x.shape", ["tokens", "hiden"], "unknown axis 'hiden'"),
        ("inputs.x.dtype", "float12", "dtype"),
        ("outputs.y.in_place_of", "z", "unknown input 'z'"),
        ("outputs.y.dtype", "float32", "differ from input"),
        ("outputs", {}, "at least one output"),
        ("axes.two.expression", "2 * nope", "unknown axis 'nope'"),
        ("axes.two.expression", "2 * four", "circle"),
        ("axes.two.expression", "2 *", "not an expression"),
        ("constraints", ["tokens > nope"], "unknown axis 'nope'"),
        ("axes.hidden.domain", {"min": 9, "max": 8}, "below min"),
        ("axes.tokens.type", "dynamic", "tokens"),
        ("name", ..., "name"),
        ("bytes", "hidden * nope", "unknown axis"),
        ("inputs.x.dtyp", "x", "dtyp"),
    ],
)
def test_a_faulty_definition_is_refused_with_the_field(path, value, message):
    with pytest.raises(ValidationError, match=message):
        Definition.model_validate(changed(path, value))


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"tokens": 0, "hidden": 8}, "below the minimum 1"),
        ({"tokens": 1, "hidden": 9}, "not a multiple of 8"),
        ({"tokens": 65, "hidden": 8}, "above the maximum 64"),
        ({"tokens": 1}, "size of 'hidden' is missing"),
        ({"tokens": 1, "hidden": 8, "heads": 1}, "'heads' is not a var axis"),
        ({"tokens": 64, "hidden": 2048}, "constraint"),
    ],
)
def test_sizes_outside_the_domain_are_refused(axes, message):
    with pytest.raises(ValueError, match=message):
        Definition.model_validate(NORM).resolve_axes(axes)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"x": RANDOM, "w": RANDOM}, "no source for 'eps'"),
        ({"x": RANDOM, "w": RANDOM, "eps": RANDOM}, "inputs.eps"),
        (
            {
                "x": {"type": "scalar", "value": 1},
                "w": RANDOM,
                "eps": {"type": "scalar", "value": 1},
            },
            "inputs.x",
        ),
        ({n: {"type": "custom"} for n in ("x", "w", "eps")}, "custom_inputs_entrypoint"),
    ],
)
def test_workload_sources_must_fit(inputs, message):
    workload = Workload.model_validate(
        {"uuid": "u", "axes": {"tokens": 1, "hidden": 8}, "inputs": inputs}
    )
    with pytest.raises(ValueError, match=message):
        workload.check_against(Definition.model_validate(NORM))


def test_a_data_path_cannot_leave_the_problem():
    with pytest.raises(ValidationError, match="leaves the problem"):
        Workload.model_validate(
            {
                "uuid": "u",
                "axes": {},
                "inputs": {"x": {"type": "safetensors", "path": "../x", "tensor_key": "k"}},
            }
        )


def spec(**fields):
    return SolutionSpec.model_validate({"entry_point": "k.cu::k", "binding": "c", **fields})


def test_default_arguments_are_inputs_outputs_axes_stream():
    arguments = spec().resolved_arguments(Definition.model_validate(NORM))
    assert [(a.name, a.ctype) for a in arguments] == [
        ("x", "pointer"),
        ("w", "pointer"),
        ("eps", "float32"),
        ("tokens", "int64"),
        ("hidden", "int64"),
        ("stream", "stream"),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["w", "eps"], "output 'x' is not among them"),
        (["x", "w", "nope"], "'nope' is no input"),
        (["x", {"name": "w", "ctype": "int32"}], "cannot be passed"),
    ],
)
def test_arguments_must_name_what_the_definition_has(arguments, message):
    with pytest.raises(ValueError, match=message):
        spec(arguments=arguments).resolved_arguments(Definition.model_validate(NORM))


@given(
    st.lists(
        st.tuples(st.text("ab/", min_size=1, max_size=4), st.text(max_size=4)),
        min_size=1,
        max_size=3,
    )
)
def test_candidate_ids_respect_field_boundaries(files):
    sources = {f"f{path.strip('/')}": text for path, text in files}
    candidate = Candidate(sources=sources)
    assert candidate.id == Candidate(sources=dict(reversed(sources.items())), title="other").id
    for path, text in sources.items():
        moved = {**sources, path: text + "x"}
        assert Candidate(sources=moved).id != candidate.id
