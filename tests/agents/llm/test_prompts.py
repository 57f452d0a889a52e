"""What models are told: golden texts, the same for the same history, and nothing that must stay hidden."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from tests.agents.llm.prompts_of_a_run import GOLDEN, RUN, prompts

from astra_kernels.agents.llm.briefing.outcomes import failure_text, outcome_line
from astra_kernels.agents.llm.briefing.problem import problem_text
from astra_kernels.agents.llm.briefing.sources import numbered_sources, plain_sources
from astra_kernels.agents.llm.planning import standing
from astra_kernels.agents.llm.rendering import render
from astra_kernels.app.runs import read_run
from astra_kernels.evaluation.redaction import redacted
from astra_kernels.importers.problem_dir import load_problem
from astra_kernels.records.evaluation import (
    BuildFailed,
    CompilerMessage,
    Crashed,
    DroppedWorkload,
    Incorrect,
    Passed,
    Quarantined,
    Rejected,
    TimedOut,
    Unsafe,
    WorkloadResult,
)
from astra_kernels.records.history import History
from astra_kernels.records.run import CandidateEvaluated, WinnerRemeasured
from astra_kernels.store import RunStore

EXAMPLES = Path(__file__).parents[3] / "examples"
OWN = sorted(p for p in EXAMPLES.iterdir() if not p.name.startswith("flashinfer"))
SECRET = "S3CRET"


@pytest.fixture(scope="module")
def rendered():
    return prompts()


@pytest.mark.parametrize("name", sorted(p.stem for p in GOLDEN.glob("*.md")))
def test_prompts_are_the_reviewed_ones(name, rendered):
    """After a wanted change, scripts/prompts writes them anew."""
    assert rendered[name] == (GOLDEN / f"{name}.md").read_text(encoding="utf-8")


def test_every_role_has_a_golden_prompt(rendered):
    assert {p.stem for p in GOLDEN.glob("*.md")} == rendered.keys()


def test_a_round_that_is_resumed_asks_the_same(rendered):
    """At its start, and after any number of its candidates; times of day and of work play no part."""
    events = RunStore.open(RUN).events()
    problem = read_run(RUN).problem
    third = next(i for i, e in enumerate(events) if getattr(e, "round", 0) == 3)
    asked = 0
    for cut in range(third + 2, len(events)):
        moved = [e.model_copy(update={"at": "2030-01-01", "elapsed_s": 9e9}) for e in events[:cut]]
        run = replace(read_run(RUN), problem=problem, history=History.fold(moved))
        if len(run.history.diagnoses) < 3 or 3 not in run.history.plans:
            continue
        assert prompts(run) == rendered, cut
        asked += 1
    assert asked >= 4


def test_no_times_and_no_places(rendered):
    for name, text in rendered.items():
        assert not re.search(r"20\d\d-\d\d-\d\d|(?<![\w.*<])/(home|work|tmp|usr|root)\b", text), (
            name
        )


def with_secrets(event):
    """The event as a search would get it, had its evaluation held secrets in every place where there may be some."""
    evaluation = event.evaluation
    if not isinstance(evaluation, Passed):
        return event
    hidden = WorkloadResult(
        uuid=f"{SECRET}-uuid",
        axes={SECRET: 4242},
        seed=987654321,
        accuracy=(),
        hidden=True,
        kind="prime size",
    )
    evaluation = replace(
        evaluation,
        hidden_seed=987654321,
        workloads=(*evaluation.workloads, hidden),
        dropped=(DroppedWorkload(uuid=SECRET, kind="k", reason=SECRET),),
        findings=(SECRET,),
        sandbox=SECRET,
        environment={**evaluation.environment, "secret": SECRET},
    )
    if isinstance(event, CandidateEvaluated):
        evaluation = redacted(evaluation)
    return event.model_copy(update={"evaluation": evaluation})


def test_nothing_hidden_is_told(rendered):
    events = [
        with_secrets(e)
        if isinstance(e, CandidateEvaluated | WinnerRemeasured) or e.event == "baseline_evaluated"
        else e
        for e in RunStore.open(RUN).events()
    ]
    told = prompts(replace(read_run(RUN), history=History.fold(events)))
    assert told == rendered
    assert not any(SECRET in text or "987654321" in text for text in told.values())


HIDDEN = {"device": "sim:h200", "hidden": "prime size, denormals", "hidden_seed": 987654321}
LEAKS = [
    Incorrect(workload=SECRET, axes={SECRET: 7}, output=SECRET, index=(7,), expected=SECRET, got=SECRET, rule=SECRET,
              mismatches=7, elements=7, **HIDDEN),
    Unsafe(kind="global_bounds", kernel=SECRET, detail=SECRET, workload=SECRET, file=SECRET, line=7, **HIDDEN),
    Crashed(stage="correctness", detail=SECRET, workload=SECRET, **HIDDEN),
    TimedOut(stage="correctness", limit_s=7.0, detail=SECRET, workload=SECRET, **HIDDEN),
    Rejected(rule="no_kernel", detail=SECRET, **HIDDEN),
    Quarantined(reason=SECRET, workload=SECRET, **HIDDEN),
    Quarantined(reason=f"{SECRET}: 1.2 us are below 1.5 us", workload="8x32768", device="sim:h200"),
    Rejected(rule="tampered", detail=SECRET, device="sim:h200"),
    TimedOut(stage="time", limit_s=123.0, detail=SECRET, device="cuda:0"),
]  # fmt: skip


@pytest.mark.parametrize("evaluation", LEAKS, ids=lambda e: e.outcome)
def test_of_hidden_workloads_and_doubt_only_the_kind_is_told(evaluation):
    for told in (outcome_line(evaluation), failure_text(evaluation, {})):
        assert SECRET not in told and "7" not in told and "123" not in told
        if evaluation.hidden and evaluation.outcome != "quarantined":
            assert "prime size, denormals" in told


def test_compiler_messages_come_with_their_lines_errors_first():
    messages = tuple(
        CompilerMessage(severity=s, message=f"{s} {n}", file="k.cu", line=n)
        for n in range(1, 30)
        for s in ("warning", "error")
    )
    sources = {"k.cu": "".join(f"line {n};\n" for n in range(1, 40))}
    told = failure_text(BuildFailed(device="d", messages=messages, log=""), sources)
    assert "k.cu:1: error: error 1\n    line 1;" in told
    assert "warning" not in told and "(38 more messages)" in told
    log = failure_text(
        BuildFailed(device="d", messages=(), log="x" * 50_000 + " ptxas fatal"), sources
    )
    assert "ptxas fatal" in log and len(log) < 7_000


def test_a_mismatch_and_an_access_are_told_with_their_place():
    wrong = Incorrect(
        device="d", workload="w", axes={"n": 5}, output="y", index=(1, 2), expected="0.5", got="nan", rule="r", mismatches=3,
        elements=9,
    )  # fmt: skip
    assert "workload w (n=5): y[1, 2] is nan, expected 0.5. 3 of 9" in failure_text(wrong, {})
    access = Unsafe(
        device="d",
        kind="global_bounds",
        kernel="k",
        detail="4 bytes beyond",
        block=(1, 0, 0),
        file="k.cu",
        line=2,
    )
    assert "at k.cu:2: 4 bytes beyond. The line is: `y[i] = 0;`" in failure_text(
        access, {"k.cu": "a\n y[i] = 0;\n"}
    )


def test_a_parent_that_failed_is_told_with_what_is_wrong(recorded):
    bad = recorded.history.attempts[3]
    told = standing(bad.candidate, recorded.history)["standing"]
    assert "wrong result" in told and "Times of the baseline" in told


@pytest.mark.parametrize("path", OWN, ids=lambda p: p.name)
def test_problems_are_told_whole(path):
    problem = load_problem(path)
    told = problem_text(problem)
    for name in (*problem.definition.axes, *problem.definition.inputs, *problem.definition.outputs):
        assert f"`{name}`" in told
    assert problem.reference.strip() in told
    assert problem.spec.entry_symbol in told


def test_long_sources_start_with_the_entry_file_and_say_what_is_left_out():
    sources = {
        "a.h": "x" * 60_000,
        "k.cu": '#include "sub/b.h"\nint k() { return used(); }\n',
        "sub/b.h": "// " + "y" * 40_000 + "\nint used() { return 1; }\n",
    }
    for told in (plain_sources(sources, "k.cu"), numbered_sources(sources, "k.cu")):
        assert told.index("### k.cu") < told.index("# lines 2 to 2 of `sub/b.h`")
        assert "int used() { return 1; }" in told and "yyy" not in told and "xxx" not in told
        assert "`a.h` (60000 characters)" in told
        assert "`sub/b.h` (40029 characters, shown in part)" in told


def test_a_fact_that_is_missing_is_an_error():
    with pytest.raises(UndefinedError):
        render("planning", problem="p")
