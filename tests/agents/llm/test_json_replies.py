"""Answers that are JSON: one object, strictly validated, every fault told."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import ModelRetry

from astra_kernels.agents.llm.planning import ProposedPlans, read_plans
from astra_kernels.agents.llm.replies.json_blocks import read_json
from astra_kernels.records.candidate import Candidate

PLAN = {"technique": "cache_hints", "hypothesis": "h", "predicted_gain": 1.1, "risk": "r"}
WHOLE = json.dumps({"plans": [PLAN]})
PARENT = Candidate(sources={"k.cu": ""})


@given(st.text(min_size=1, max_size=200), st.text(max_size=50))
def test_any_text_survives(hypothesis, risk):
    body = json.dumps({"plans": [{**PLAN, "hypothesis": hypothesis, "risk": risk}]}, indent=1)
    (plan,) = read_json(f"Here:\n```json\n{body}\n```\n", ProposedPlans).plans
    for read, meant in ((plan.hypothesis, hypothesis), (plan.risk, risk)):
        assert read == "".join(c if c.isprintable() or c == "\n" else " " for c in meant)


def test_nothing_steers_a_terminal():
    body = json.dumps({"plans": [{**PLAN, "hypothesis": "a\x1b[2Jb\u202ec"}]})
    assert read_json(body, ProposedPlans).plans[0].hypothesis == "a [2Jb c"


@pytest.mark.parametrize(
    "answer",
    [f"```json\n{WHOLE}\n```", f"```JSON\r\n{WHOLE}\r\n```", f"Sure.\n```\n{WHOLE}\n```", f" {WHOLE}\n",
     f"~~~json\n{WHOLE}\n~~~\n```cuda\nint x;\n```"],
)  # fmt: skip
def test_one_object_is_found(answer):
    assert read_json(answer, ProposedPlans).plans[0].technique == "cache_hints"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("no", "no JSON"),
        (f"```json\n{WHOLE}\n```\n```json\n{WHOLE}\n```", "2 blocks of JSON, at lines 1, 4"),
        (f"```json\n{WHOLE}", "not closed"),
        ('```json\n{"plans": [,]}\n```', "line 1, column 12"),
        ('```json\n{"plans": ' + "[" * 50_000 + "\n```", "cannot be read"),
        (WHOLE.replace("1.1", "9" * 5000), "too many digits"),
        ("```json\n" + '{"plans": "' + "x" * 70_000 + '"}\n```', "60000 are the most"),
        ('```json\n{"plans": [{"technique": "Bad Key"}]}\n```', "plans.0.technique"),
        (WHOLE.replace("1.1", '"1.1"'), "plans.0.predicted_gain: Input should be a valid number"),
        (WHOLE.replace('"h"', '"\\ud800"'), "hex escape"),
        (WHOLE.replace("1.1", "NaN"), "plans.0.predicted_gain"),
        (WHOLE.replace("1.1", "1e9"), "less than 50"),
        (WHOLE.replace('"risk"', '"risks"'), "plans.0.risks: Extra inputs"),
    ],
)
def test_faults_are_told_in_words(answer, told):
    with pytest.raises(ModelRetry) as fault:
        read_json(answer, ProposedPlans)
    assert told in fault.value.message


def test_identifiers_are_given_by_code_and_no_more_plans_than_asked_for():
    body = json.dumps(
        {"plans": [{**PLAN, "hypothesis": str(n), "where": "k.cu:3"} for n in range(5)]}
    )
    first, second = read_plans(body, PARENT, 4, 2)
    assert first.id != second.id and first.id == f"r4-1-{PARENT.id[:6]}"
    assert first.parent == PARENT.id and first.hypothesis == "0 Where: k.cu:3"


def test_the_same_plan_twice_is_told():
    with pytest.raises(ModelRetry, match="twice"):
        read_plans(json.dumps({"plans": [PLAN, PLAN]}), PARENT, 1, 3)
