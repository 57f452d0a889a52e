"""Whatever a model does, a role gives a result that says so; limits and refused keys pass through."""

import gc
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.function import FunctionModel

from astra_kernels.agents.llm.asking import RETRIES
from astra_kernels.agents.llm.coding import ALREADY_TRIED, LlmCoder
from astra_kernels.agents.llm.planning import LlmPlanner
from astra_kernels.agents.llm.profiling import LlmProfiler
from astra_kernels.agents.llm.single import SingleAgent
from astra_kernels.agents.llm.testing import LlmTester
from astra_kernels.errors import BudgetSpent, ModelFault, ModelRejected
from astra_kernels.protocols import Refusal


def roles(problem, model, parent, history, plan):
    """Every request that the roles make, by name."""
    evaluation = history.evaluation_of(parent.id)
    return {
        "testing": lambda: LlmTester(model).propose(problem),
        "profiling": lambda: LlmProfiler(problem, model).diagnose(parent, evaluation),
        "planning": lambda: LlmPlanner(problem, model).plan(parent, None, history),
        "coding": lambda: LlmCoder(problem, model).write(plan, parent, history),
        "repair": lambda: LlmCoder(problem, model).repair(plan, parent, evaluation, history),
        "single": lambda: SingleAgent(problem, model).write(plan, parent, history),
    }


NAMES = ("testing", "profiling", "planning", "coding", "repair", "single")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("error", [BudgetSpent("1 USD"), ModelRejected("no key")])
def test_limits_and_refused_keys_pass_through(name, error, script, problem, parent, history, plan):
    ask = roles(problem, script(error).model, parent, history, plan)[name]
    with pytest.raises(type(error), match=str(error)):
        ask()


def check_fallback(name, result, reason):
    match name:
        case "testing":
            assert result == ()
        case "profiling":
            assert result.summary.startswith("by rules, for want of a model's answer")
            assert reason in result.summary and result.evidence
        case "planning":
            assert len(result) == 3
            assert all("by rules" in p.hypothesis and reason in p.hypothesis for p in result)
        case _:
            assert isinstance(result, Refusal) and reason in result.reason


@pytest.mark.parametrize("name", NAMES)
def test_a_model_without_answers_is_replaced_visibly(name, script, problem, parent, history, plan):
    model = script(ModelFault("five times overloaded")).model
    check_fallback(
        name, roles(problem, model, parent, history, plan)[name](), "five times overloaded"
    )


@pytest.mark.parametrize("name", NAMES)
def test_prose_is_sent_back_twice(name, script, problem, parent, history, plan):
    models = script("I am sorry, I cannot do that.")
    result = roles(problem, models.model, parent, history, plan)[name]()
    check_fallback(name, result, "3 answers could not be used: There is no")
    assert len(models.asked) == 1 + RETRIES
    assert "in your answer" in models.told


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("finish", "reason"), [("length", "limit of output tokens"), ("content_filter", "filter")]
)
def test_empty_answers(name, finish, reason, problem, parent, history, plan):
    model = FunctionModel(lambda messages, info: ModelResponse(parts=[], finish_reason=finish))
    check_fallback(name, roles(problem, model, parent, history, plan)[name](), reason)


@pytest.mark.parametrize("name", ["coding", "repair"])
def test_a_cut_answer_is_asked_for_shorter(edit, name, script, problem, parent, history, plan):
    models = script((edit, "length"), edit)
    made = roles(problem, models.model, parent, history, plan)[name]()
    assert not isinstance(made, Refusal)
    assert "cut off at the limit" in models.told and "SEARCH/REPLACE edits" in models.told


def test_code_with_another_signature_is_sent_back(edit, script, problem, parent, history, plan):
    wrong = edit + edit.partition("\n")[2].replace(
        "    out_row[i] = scale / (1.0f + expf(-row[i]));",
        'extern "C" int sigmoid(float* out, const float* in, float scale, int rows, int columns, cudaStream_t stream) {',
    ).replace(
        "    out_row[i] = scale * (1.0f / (1.0f + expf(-row[i])));",
        'extern "C" int fast(float* out) {',
    )
    models = script(wrong, edit)
    (made,) = LlmCoder(problem, models.model).write(plan, parent, history)
    assert "The entry point is missing: sigmoid.cu has to define" in models.told
    assert made.sources["sigmoid.cu"].count('extern "C" int sigmoid(') == 1


@pytest.mark.parametrize("known", ["parent", "baseline", "attempt"])
def test_programs_that_are_known_are_not_written_again(
    known, script, problem, parent, history, plan
):
    subject = {
        "parent": parent,
        "baseline": problem.baseline,
        "attempt": history.attempts[3].candidate,
    }[known]
    text = subject.sources["sigmoid.cu"].replace("{", "{ // now faster", 1).replace("  ", "    ")
    answer = f"### sigmoid.cu\n```cuda\n{text}```\n"
    models = script(answer)
    assert LlmCoder(problem, models.model).write(plan, parent, history) == Refusal(ALREADY_TRIED)
    assert len(models.asked) == 1


def test_of_two_equal_candidates_one_stays(edit, script, problem, parent, history, plan):
    body = edit.partition("\n")[2]
    models = script(f"## Candidate 1: a\n{body}\n## Candidate 2: b\n{body}")
    (made,) = LlmCoder(problem, models.model, candidates=2).write(plan, parent, history)
    assert made.title == "launch_geometry: a"
    assert "Give 2 candidates" in models.asked[0][0]


def test_a_model_may_refuse(script, problem, parent, history, plan):
    models = script("Refusal: rows are too short for that")
    refusal = LlmCoder(problem, models.model).write(plan, parent, history)
    assert refusal == Refusal("the model refuses: rows are too short for that")
    assert len(models.asked) == 1


def test_invented_evidence_is_sent_back(script, problem, parent, history):
    def answer(metric, value):
        evidence = [{"metric": metric, "value": value, "meaning": "m"}]
        return json.dumps({"bottleneck": "parallelism", "summary": "s", "evidence": evidence})

    waves = "launch__waves_per_multiprocessor"
    models = script(answer("made__up", 1.0), answer(waves, 0.9), answer(waves, 0.0303))
    evaluation = history.evaluation_of(parent.id)
    diagnosis = LlmProfiler(problem, models.model).diagnose(parent, evaluation)
    assert "there is no counter 'made__up'" in models.asked[1][1][-1]
    assert f"{waves} is nowhere 0.9; it is 0.0303, 0.01136" in models.told
    assert diagnosis.evidence[0].value == evaluation.workloads[0].profiles[0].metrics[waves]
    assert (diagnosis.subject, diagnosis.summary) == (parent.id, "s")


def test_without_counters_registers_can_be_cited_and_something_has_to_be(
    script, problem, parent, history
):
    def answer(*evidence):
        return json.dumps({"bottleneck": "unknown", "summary": "s", "evidence": evidence})

    evaluation = history.evaluation_of(parent.id)
    bare = replace(
        evaluation, workloads=tuple(replace(w, profiles=()) for w in evaluation.workloads)
    )
    registers = {"metric": "launch__registers_per_thread", "value": 17, "meaning": "few"}
    models = script(answer(), answer(registers))
    diagnosis = LlmProfiler(problem, models.model).diagnose(parent, bare)
    assert "cite at least one counter" in models.told
    assert diagnosis.evidence[0].value == 17
    asked = models.asked[0][1][0]
    assert "no counters on this device" in asked and "launch__registers_per_thread" in asked
    nothing = replace(bare, resources=())
    assert LlmProfiler(problem, script(answer()).model).diagnose(parent, nothing).evidence == ()


def test_roles_can_be_asked_from_many_threads(edit, script, problem, parent, history, plan):
    coder = LlmCoder(problem, script(edit).model)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: coder.write(plan, parent, history), range(16)))
    gc.collect()  # a loop or a socket that was left open would warn, which is an error
    assert all(candidates == made[0] for candidates in made)
    assert not isinstance(made[0], Refusal)
