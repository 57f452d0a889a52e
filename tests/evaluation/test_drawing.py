"""Hidden workloads as a space: legal, reproducible, different, and of every kind."""

import math
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from astra_kernels.agents.rules.testing import RuleTester
from astra_kernels.evaluation.hidden import (
    LARGE_ELEMENTS,
    LARGE_ELEMENTS_SIMULATED,
    draw_hidden,
)
from astra_kernels.importers.problem_dir import load_problem
from astra_kernels.records.expressions import evaluate
from astra_kernels.records.sizes import batch_axis, total_elements
from astra_kernels.records.workload import SafetensorsInput

from .conftest import norm_problem

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SECRETS = st.integers(0, 2**64 - 1)


@st.composite
def problems(draw):
    """The normalisation with drawn domains, steps and a constraint."""
    base = norm_problem()
    axes = {}
    for name in ("rows", "columns"):
        step = draw(st.sampled_from([1, 1, 2, 8, 64]))
        low = draw(st.integers(1, 4)) * step
        axes[name] = {
            "type": "var",
            "domain": {
                "min": low,
                "max": low + draw(st.integers(0, 300)) * step,
                "multiple_of": step,
            },
        }
    definition = base.definition.model_dump(mode="json") | {
        "axes": axes,
        "constraints": draw(
            st.sampled_from(
                [[], ["rows * columns <= 65536"], ["columns >= rows"], ["eps * columns < 1"]]
            )
        ),
    }
    legal = {n: a["domain"]["min"] for n, a in axes.items()}
    legal["columns"] = max(
        legal["columns"],
        -(-legal["rows"] // axes["columns"]["domain"]["multiple_of"])
        * axes["columns"]["domain"]["multiple_of"],
    )
    axes["columns"]["domain"]["max"] = max(axes["columns"]["domain"]["max"], legal["columns"])
    workloads = [{**base.workloads[0].model_dump(mode="json"), "axes": legal}]
    fields = base.model_dump(mode="json") | {"definition": definition, "workloads": workloads}
    return type(base).model_validate(fields)


@settings(max_examples=60, deadline=None)
@given(problems(), SECRETS, st.booleans())
def test_what_is_drawn_is_legal(problem, secret, simulated):
    drawn = draw_hidden(problem, secret, simulated=simulated)
    assert drawn, "the public sizes are legal, so something always is"
    most = LARGE_ELEMENTS_SIMULATED if simulated else LARGE_ELEMENTS
    for hidden in drawn:
        hidden.workload.check_against(problem.definition)
        axes = problem.definition.resolve_axes(hidden.workload.axes)
        eps = hidden.workload.inputs["eps"].value
        assert all(evaluate(c, axes | {"eps": eps}) for c in problem.definition.constraints)
        assert total_elements(problem.definition, axes) <= most
        assert hidden.kind
        assert not hidden.workload.timed
    names = {h.workload.uuid for h in drawn} | {w.uuid for w in problem.workloads}
    assert len(names) == len(drawn) + len(problem.workloads)


@settings(max_examples=30, deadline=None)
@given(SECRETS, SECRETS)
def test_a_secret_decides_everything(one, other):
    problem = norm_problem()
    assert draw_hidden(problem, one, simulated=True) == draw_hidden(problem, one, simulated=True)
    if one != other:
        assert draw_hidden(problem, one, simulated=True) != draw_hidden(
            problem, other, simulated=True
        )


@settings(max_examples=30, deadline=None)
@given(SECRETS)
def test_kinds_are_covered_and_true(secret):
    problem = norm_problem()
    drawn = draw_hidden(problem, secret, simulated=True)
    assert len(drawn) == 12
    kinds = " | ".join(h.kind for h in drawn)
    for words in ("size 1", "prime", "odd", "no vector divides", "one off a power of two", "large sizes",
                  "zeros", "denormals", "infinities", "constant rows", "ties", "many magnitudes"):  # fmt: skip
        assert words in kinds
    for hidden in drawn:
        sizes = hidden.workload.axes.values()
        if "prime" in hidden.kind:
            assert (
                any(n > 1 and math.gcd(n, math.factorial(n - 1)) == 1 for n in sizes if n < 3000)
                or max(sizes) >= 3000
            )
        if "size 1" in hidden.kind:
            assert 1 in sizes
        if "vector divides" in hidden.kind:
            assert any(n % 8 for n in sizes)
        assert not any(str(n) in hidden.kind for n in sizes if n > 1), "a kind tells no size"
    assert len({h.workload.inputs["eps"].value for h in drawn}) > 6, "scalars vary"
    assert len({h.seed for h in drawn}) == 12


def test_proposals_cannot_be_fitted_to():
    """What the testing agent proposes is public; hidden sizes are others."""
    problem = norm_problem()
    public = {tuple(w.axes.values()) for w in (*problem.workloads, *RuleTester().propose(problem))}
    drawn = [
        tuple(h.workload.axes.values())
        for s in range(20)
        for h in draw_hidden(problem, s, simulated=True)
    ]
    assert sum(sizes in public for sizes in drawn) < len(drawn) / 20


def test_without_domains_sizes_lie_around_the_public_ones():
    drawn = draw_hidden(norm_problem(domains=False), 5, simulated=True)
    assert len(drawn) == 12
    assert all(h.workload.axes["columns"] <= 2048 and h.workload.axes["rows"] <= 16 for h in drawn)
    assert any(h.workload.axes["columns"] % 512 for h in drawn)


def test_stored_inputs_leave_nothing_to_draw():
    problem = norm_problem()
    stored = SafetensorsInput(path="x.safetensors", tensor_key="x")
    workloads = tuple(
        w.model_copy(update={"inputs": {**w.inputs, "x": stored}}) for w in problem.workloads
    )
    assert draw_hidden(problem.model_copy(update={"workloads": workloads}), 1, simulated=True) == ()


def definition_of(**shapes):
    fields = norm_problem().definition.model_dump(mode="json")
    fields["axes"]["halves"] = {"type": "expr", "expression": "rows // 2"}
    for name, shape in shapes.items():
        fields["outputs" if name == "y" else "inputs"][name]["shape"] = shape
    return type(norm_problem().definition).model_validate(fields)


def test_the_batch_axis_leads_whatever_depends_on_it():
    assert batch_axis(definition_of()) == "rows"
    assert batch_axis(definition_of(weight=["rows"])) == "rows"
    assert batch_axis(definition_of(weight=["columns", "rows"])) is None
    assert batch_axis(definition_of(weight=["halves"])) is None
    assert batch_axis(definition_of(y=["columns", "rows"])) is None
    assert batch_axis(definition_of(y=[])) is None


def test_the_upper_half_of_a_domain_is_nearly_always_looked_at():
    """The norm of the examples takes rows of up to 32768; a rewrite that keeps a row in registers fails there."""
    problem = load_problem(EXAMPLES / "fused_add_rmsnorm")
    reached = 0
    for secret in range(60):
        drawn = draw_hidden(problem, secret, simulated=True)
        assert len(drawn) <= 12
        reached += any(h.workload.axes["hidden"] > 16384 for h in drawn)
    assert reached >= 57
