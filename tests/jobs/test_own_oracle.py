"""A problem without a reference: what the baseline computes is what a candidate has to compute."""

from astra_kernels.jobs.run_job import run_job
from tests.jobs.staging import FAST, SILU, stage


def judged(tmp_path, build_cache, baseline, candidate=None):
    nothing = '"""No reference."""\n'
    job = stage(tmp_path / "job", candidate, baseline, reference=nothing, oracle="baseline")
    return run_job(job, cache_dir=build_cache)


def test_the_baseline_agrees_with_itself(tmp_path, build_cache):
    outcome = judged(tmp_path, build_cache, SILU)
    assert outcome.outcome == "passed"
    assert outcome.oracle == "the baseline's own outputs"


def test_rounding_may_differ_but_not_the_formula(tmp_path, build_cache):
    assert judged(tmp_path / "a", build_cache, SILU, FAST).outcome == "passed"
    other = SILU.replace("1.0f +", "1.1f +")
    assert judged(tmp_path / "b", build_cache, SILU, other).outcome == "incorrect"


def test_what_is_never_written_is_not_taken_for_right(tmp_path, build_cache):
    partly = SILU.replace("i < hidden;", "i < hidden - 1;")
    outcome = judged(tmp_path, build_cache, partly)
    assert outcome.outcome == "incorrect" and "never written" in outcome.rule
