"""Whole calls of the roles, against a recorded run and the examples."""

import json
from pathlib import Path

import pytest

from astra_kernels.agents.llm.catalogue import CATALOGUE
from astra_kernels.agents.llm.coding import LlmCoder
from astra_kernels.agents.llm.hybrid import HybridCoder
from astra_kernels.agents.llm.planning import LlmPlanner
from astra_kernels.agents.llm.single import SingleAgent
from astra_kernels.agents.llm.testing import MOST_ELEMENTS, LlmTester
from astra_kernels.agents.rewrites import REWRITES, fingerprint
from astra_kernels.agents.rules.planning import TECHNIQUES
from astra_kernels.importers.problem_dir import load_problem
from astra_kernels.protocols import Refusal

EXAMPLES = Path(__file__).parents[3] / "examples"
THOUGHT = {
    "diagnosis": "d",
    "technique": "loads_in_flight",
    "hypothesis": "h",
    "predicted_gain": 1.2,
}


def workloads(*proposals):
    return f"```json\n{json.dumps({'workloads': proposals})}\n```"


def test_proposals_become_workloads(script, problem):
    answer = workloads(
        {"sizes": {"columns": 129, "rows": 1}, "values": {"x": "infinities"}, "why": "w"},
        {"sizes": {"rows": 1, "columns": 129}, "values": {"x": "infinities"}},
        {"sizes": {"rows": 3, "columns": 5}},
    )
    first, second = LlmTester(script(answer).model).propose(problem)
    assert first.uuid == "test-rows1-columns129-x.infinities"
    assert (first.axes, first.timed) == ({"rows": 1, "columns": 129}, False)
    assert first.inputs["x"].distribution == "infinities" and first.inputs["scale"].value == 2.0
    assert second.inputs["x"].distribution == "normal"
    first.check_against(problem.definition)


@pytest.mark.parametrize(
    ("proposal", "told"),
    [
        ({"sizes": {"rows": 5000, "columns": 1}}, "axes.rows: 5000 is above the maximum 4096"),
        ({"sizes": {"rows": 1}}, "the size of 'columns' is missing"),
        ({"sizes": {"rows": 1, "columns": 1, "more": 1}}, "'more' is not a var axis"),
        ({"sizes": {"rows": 4096, "columns": 65536}}, f"{MOST_ELEMENTS} are the most"),
        ({"sizes": {"rows": 1, "columns": 1}, "values": {"scale": "zeros"}}, "values.scale: no input that takes values"),
        ({"sizes": {"rows": 1, "columns": 1}, "values": {"x": "evil"}}, "workloads.0.values.x"),
    ],
)  # fmt: skip
def test_proposals_that_do_not_fit_are_told(proposal, told, script, problem):
    models = script(workloads(proposal), workloads({"sizes": {"rows": 1, "columns": 2}}))
    assert len(LlmTester(models.model).propose(problem)) == 1
    assert told in models.told


def test_values_of_a_problem_with_its_own_function_are_its_own(script):
    problem = load_problem(EXAMPLES / "merge_attn_states_lse")
    sizes = {"seq_len": 1, "num_heads": 3, "head_dim": 7}
    models = script(workloads({"sizes": sizes}))
    (workload,) = LlmTester(models.model).propose(problem)
    assert {s.type for s in workload.inputs.values()} == {"custom"}
    assert "leave `values` out" in models.asked[0][1][0]


def test_a_plan_is_carried_out(edit, script, problem, parent, history, plan):
    (made,) = LlmCoder(problem, script(edit).model).write(plan, parent, history)
    assert made.parent == parent.id
    assert made.title == "launch_geometry: other order"
    assert "scale * (1.0f /" in made.sources["sigmoid.cu"]


def test_a_repair_starts_from_what_failed(script, problem, recorded, history):
    bad = recorded.history.attempts[3]
    line = "#include <cuda_runtime.h>"
    answer = (
        f"### sigmoid.cu\n<<<<<<< SEARCH\n{line}\n=======\n{line}\nint mended;\n>>>>>>> REPLACE\n"
    )
    models = script(answer)
    made = LlmCoder(problem, models.model).repair(bad.plan, bad.candidate, bad.evaluation, history)
    assert made.parent == bad.candidate.id
    assert "astra_reciprocal" in made.sources["sigmoid.cu"]
    assert "y[0, 12] is 0.238405868, expected 0.238405844" in models.asked[0][1][0]


def test_the_planner_sees_predicted_and_actual_gains(script, problem, parent, history):
    plans = {
        "plans": [{"technique": "row_split", "hypothesis": "h", "predicted_gain": 1.3, "risk": "r"}]
    }
    models = script(json.dumps(plans))
    (plan,) = LlmPlanner(problem, models.model, notes="vector loads gained 1.1").plan(
        parent, None, history
    )
    assert (plan.technique, plan.parent) == ("row_split", parent.id)
    asked = models.asked[0][1][0]
    assert "| 1.4 | 4.294 | passed, 4.294 (modelled" in asked
    assert "vector loads gained 1.1" in asked


def test_an_empty_list_of_plans_is_the_models_word(script, problem, parent, history):
    assert LlmPlanner(problem, script('{"plans": []}').model).plan(parent, None, history) == ()


def test_the_single_agent_asks_once_a_round(edit, script, problem, parent, history):
    models = script(f"```json\n{json.dumps(THOUGHT)}\n```\n{edit}")
    agent = SingleAgent(problem, models.model)
    diagnosis = agent.diagnose(parent, history.evaluation_of(parent.id))
    (plan,) = agent.plan(parent, diagnosis, history)
    (made,) = agent.write(plan, parent, history)
    assert len(models.asked) == 1
    assert (plan.parent, made.parent) == (parent.id, parent.id)
    assert made.title == "loads_in_flight: other order"


def test_the_single_agent_has_to_say_what_it_thinks(edit, script, problem, parent, history, plan):
    models = script(edit)
    assert isinstance(SingleAgent(problem, models.model).write(plan, parent, history), Refusal)
    assert "no JSON" in models.told


def test_rewrites_vary_what_a_model_wrote(edit, script, problem, history, plan):
    coder = HybridCoder(problem, LlmCoder(problem, script(edit).model), variants=4)
    first, *variants = coder.write(plan, problem.baseline, history)
    assert first.title == "launch_geometry: other order"
    assert len(variants) == 4
    assert len({fingerprint(c.sources) for c in (first, *variants)}) == 5
    applied = [v.title.removeprefix(f"{first.title} + rewrite ").split(" (")[0] for v in variants]
    assert len(set(applied)) == 4 and set(applied) <= {r.technique for r in REWRITES}
    assert all(v.parent == problem.baseline.id for v in variants)


def test_a_variant_that_failed_is_not_mended(edit, script, problem, recorded, history, plan):
    models = script(edit)
    coder = HybridCoder(problem, LlmCoder(problem, models.model))
    first, variant, *_ = coder.write(plan, problem.baseline, history)
    evaluation = recorded.history.attempts[3].evaluation
    assert isinstance(coder.repair(plan, variant, evaluation, history), Refusal)
    assert len(models.asked) == 1
    coder.repair(plan, first, evaluation, history)
    assert len(models.asked) > 1


def test_the_catalogue_has_every_rewrite_under_its_key():
    keys = [idea.key for idea in CATALOGUE]
    assert len(set(keys)) == len(keys)
    assert {r.technique for r in REWRITES} | {t.name for t in TECHNIQUES} <= set(keys)


def test_without_code_there_are_no_variants(script, problem, parent, history, plan):
    coder = HybridCoder(problem, LlmCoder(problem, script("Refusal: no").model))
    assert coder.write(plan, parent, history) == Refusal("the model refuses: no")
