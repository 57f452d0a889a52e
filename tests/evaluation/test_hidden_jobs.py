"""Whole jobs on the simulated device: kernels that are right on every public workload and wrong elsewhere."""

import dataclasses
import json
import os
import re

import pytest

from astra_kernels.evaluation.hidden import draw_hidden
from astra_kernels.evaluation.hosted import HostedEvaluator
from astra_kernels.evaluation.local import LocalHost
from astra_kernels.evaluation.redaction import redacted
from astra_kernels.jobs.hidden import yardstick
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.evaluation import OutputAccuracy, Passed
from tests.tiers import with_sample

from .conftest import KERNEL, REFERENCE, edited, norm_problem

PUBLIC_ONLY = "(rows == 8 && columns == 512) || (rows == 4 && columns == 1024)"
LAUNCH = "  // before the launch"
WRONG = {
    "multiples of eight only": edited("i < columns; i += 32) {", "i < columns / 8 * 8; i += 32) {"),
    "public sizes only": edited(LAUNCH, f"  if (!({PUBLIC_ONLY})) eps = 1.0f;"),
    "no eps": edited("sum / columns + eps", "sum / columns"),
    "no infinities": edited("row[i] * scale", "fminf(fmaxf(row[i], -1e30f), 1e30f) * scale"),
    "no denormals": edited("row[i] * scale", "(fabsf(row[i]) < 2e-38f ? 0.0f : row[i]) * scale"),
    "a constant weight": edited("* weight[i]", "* weight[columns > 2000 ? 0 : i]"),
}
SLOWER = edited("row[i] * scale * weight[i]", "weight[i] * (row[i] * scale)")


@pytest.mark.parametrize("seed", with_sample([1, 2], 0))
@pytest.mark.parametrize("name", with_sample(WRONG, 0))
def test_what_public_workloads_miss_is_caught(judge, name, seed):
    assert isinstance(judge(WRONG[name], hidden_seed=None), Passed), (
        "every public workload is right"
    )
    outcome = judge(WRONG[name], hidden_seed=seed)
    assert outcome.outcome == "incorrect"
    drawn = {h.workload.uuid: h.kind for h in draw_hidden(norm_problem(), seed, simulated=True)}
    assert outcome.hidden == drawn[outcome.workload]


@pytest.mark.parametrize("seed", with_sample(range(1, 6), 0))
def test_an_honest_kernel_passes(judge, seed):
    outcome = judge(SLOWER, hidden_seed=seed)
    assert isinstance(outcome, Passed), outcome
    rows = [w for w in outcome.workloads if w.hidden]
    assert len(rows) + len(outcome.dropped) == 12
    assert len(rows) >= 10
    assert all(w.kind and w.timing is None and not w.profiles and w.accuracy for w in rows)
    assert [w.hidden for w in outcome.workloads] == [False] * 2 + [True] * len(rows)


@pytest.mark.parametrize(
    ("limit", "words"),
    with_sample(
        [
            ("  if (columns % 8) return cudaSuccess;", "no_kernel"),
            ("  if (columns % 8) columns -= 1;", "incorrect"),
            ("  if (columns % 8) return cudaErrorInvalidValue;", "crashed"),
            ("  if (columns % 8) __builtin_trap();", "crashed"),
        ],
        *(3,),
    ),
)
def test_what_the_baseline_fails_on_counts_for_nobody(judge, limit, words):
    narrow = edited(LAUNCH, limit)
    problem = norm_problem(kernel=narrow, domains=False)
    outcome = judge(narrow + "// the same", problem, hidden_seed=4)
    assert isinstance(outcome, Passed), outcome
    assert outcome.dropped
    assert any(words in d.reason for d in outcome.dropped)
    left = [w for w in outcome.workloads if w.hidden]
    assert left
    assert all(w.axes["columns"] % 8 == 0 for w in left)


def test_a_baseline_that_is_judged_alone_says_what_it_fails_on(judge):
    narrow = edited(LAUNCH, "  if (columns % 8) __builtin_trap();")
    problem = norm_problem(kernel=narrow)
    outcome = judge(narrow, problem)
    assert isinstance(outcome, Passed)
    assert len(outcome.dropped) > 3
    whole = judge(KERNEL, norm_problem())
    assert all("large magnitudes" in d.kind for d in whole.dropped), "squares of these overflow"


@pytest.mark.parametrize("trouble", ["raise ValueError('odd')", "import os; os._exit(3)"])
def test_what_the_reference_fails_on_counts_for_nobody(judge, trouble):
    run = "def reference_fp64(x, weight, eps):\n"
    reference = REFERENCE.replace(run, f"{run}    if x.shape[1] % 2:\n        {trouble}\n")
    outcome = judge(SLOWER, norm_problem(reference=reference))
    assert isinstance(outcome, Passed)
    assert any("reference" in d.reason for d in outcome.dropped)


def test_one_lucky_element_is_no_yardstick():
    def error(ulp, output="y"):
        return OutputAccuracy(
            output=output, max_ulp=ulp, rms_ulp=ulp / 2, mismatches=0, elements=9, max_abs=0
        )

    public = {"a": (error(1.0), error(7.0, "z")), "b": (error(2.0),), "c": (error(90.0),)}
    (lucky,) = yardstick((error(0.01),), public)
    assert (lucky.max_ulp, lucky.rms_ulp) == (2.0, 1.0)
    assert yardstick((error(3.0),), public) == (error(3.0),)
    assert yardstick((error(0.01),), {}) == (error(0.01),)


def numbers_in(value):
    return set(re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", json.dumps(value)))


def told(evaluation):
    """An evaluation as it is serialised, without what is the same for every job."""
    fields = dataclasses.asdict(evaluation)
    for name in ("device", "wall_s", "environment", "sandbox", "limit_s", "resources", "sass_mix"):
        fields.pop(name, None)
    return fields


@pytest.mark.parametrize(
    "kernel",
    with_sample(
        [
            edited(LAUNCH, f"  if (!({PUBLIC_ONLY})) return cudaErrorInvalidValue;"),
            edited(LAUNCH, f"  if (!({PUBLIC_ONLY})) return cudaSuccess;"),
            edited(LAUNCH, f"  if (!({PUBLIC_ONLY})) __builtin_trap();"),
            edited("row[i] * row[i]", "row[i] * row[i + (columns % 8 ? columns * 64 : 0)]"),
            *WRONG.values(),
        ],
        *(1, 3),
    ),
)
def test_a_search_is_told_the_kind_and_nothing_else(judge, kernel):
    full = judge(kernel, hidden_seed=6)
    assert full.hidden
    short = redacted(dataclasses.replace(full, hidden_seed=6))
    assert (short.outcome, short.hidden) == (full.outcome, full.hidden)
    zero = {"0", "0.0"}  # counts, and seconds of tools that did not run
    assert numbers_in(told(short)) <= zero | numbers_in(full.hidden), told(short)
    assert getattr(short, "workload", "hidden") == "hidden"


def test_a_search_is_told_of_passed_hidden_workloads_the_kinds(judge):
    problem = norm_problem(kernel=edited(LAUNCH, "  if (columns % 8) __builtin_trap();"))
    full = judge(SLOWER, problem, hidden_seed=4)
    short = redacted(dataclasses.replace(full, hidden_seed=4))
    assert isinstance(short, Passed)
    assert [w for w in short.workloads if not w.hidden] == [
        w for w in full.workloads if not w.hidden
    ]
    for before, after in zip(full.workloads, short.workloads, strict=True):
        if before.hidden:
            fields = dataclasses.asdict(after)
            assert fields.pop("kind") == before.kind
            assert not any(
                fields[n] for n in ("axes", "seed", "accuracy", "baseline_accuracy", "profiles")
            )
    assert [(d.kind, d.reason) for d in short.dropped] == [(d.kind, "") for d in full.dropped]
    text = json.dumps(told(short))
    secret = [w.seed for w in full.workloads if w.hidden]
    secret += [n for w in full.workloads if w.hidden for n in w.axes.values() if n > 2000]
    assert secret
    assert not [n for n in secret if re.search(rf"\b{n}\b", text)]


def test_search_and_confirmation(tmp_path, toolchain, build_cache):
    """The same wrong candidate, as a search and as a confirmation get it."""
    problem = norm_problem()
    host = LocalHost(problem, tmp_path, dict(os.environ), tmp_path, build_cache)
    evaluator = HostedEvaluator(problem, "sim:h200", host)
    wrong = Candidate(sources={"norm.cu": WRONG["public sizes only"]})
    searched = evaluator.evaluate(wrong, problem.workloads, 3, "search")
    assert searched.outcome == "incorrect"
    assert searched.hidden
    assert (searched.axes, searched.hidden_seed) == ({}, None)
    confirmed = evaluator.evaluate(wrong, problem.workloads, 3, "confirm")
    drawn = draw_hidden(problem, confirmed.hidden_seed, simulated=True)
    (culprit,) = [h for h in drawn if h.workload.uuid == confirmed.workload]
    assert culprit.workload.axes == confirmed.axes
    assert not list(tmp_path.rglob("job.json")), "the secret is in no file once the job has ended"
    again = evaluator.evaluate(wrong, problem.workloads, 3, "confirm")
    assert again.hidden_seed != confirmed.hidden_seed
