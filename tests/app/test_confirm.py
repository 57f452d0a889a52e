"""`astra confirm` with the real compiler on the simulated device: good, wrong, unsafe and slower candidates."""

import json
import signal
import subprocess

import pytest

from tests.tiers import with_sample

from .conftest import KERNEL

LAUNCH = "128, 0, stream"


@pytest.fixture
def confirm(problem, astra, tmp_path):
    def confirmed(old, new):
        assert old in KERNEL
        (tmp_path / "candidate.cu").write_text(KERNEL.replace(old, new))
        arguments = (problem, "candidate.cu", "--device", "sim:h200", "--json")
        done = astra("confirm", *arguments)
        return done.returncode, json.loads(done.stdout)

    return confirmed


def verdicts(result):
    return {name: claim["verdict"] for name, claim in result["claims"].items()}


@pytest.mark.parametrize(
    "threads", with_sample([512, 32], 0), ids=["modelled faster", "modelled slower"]
)
def test_a_modelled_time_confirms_nothing(confirm, threads):
    code, result = confirm(LAUNCH, f"{threads}, 0, stream")
    assert (code, result["verdict"]) == (1, "not established")
    assert verdicts(result) == {"correct": "held", "safe": "held", "faster": "not established"}
    (reason,) = result["reasons"]
    assert reason.startswith("faster: modelled only: modelled gain")
    assert (result["evaluation"]["geomean"]["gain"] > 1) == (threads == 512)
    assert {w["seed"] for w in result["evaluation"]["workloads"]} != {0}
    assert result["control"] is None


def test_a_wrong_candidate_is_refuted(confirm):
    code, result = confirm("1.0f + expf", "1.001f + expf")
    assert (code, result["verdict"]) == (1, "refuted")
    assert verdicts(result)["correct"] == "failed"
    assert result["reasons"][0].startswith("correct: incorrect on ")


@pytest.mark.full
def test_an_unsafe_candidate_is_refuted(confirm):
    code, result = confirm("i < columns", "i <= columns")
    assert (code, result["verdict"]) == (1, "refuted")
    assert verdicts(result)["safe"] == "failed"


@pytest.mark.full
def test_seeds_are_drawn_anew(confirm):
    results = [confirm(LAUNCH, "256, 0, stream")[1] for _ in range(2)]
    seeds = [{w["seed"] for w in r["evaluation"]["workloads"] if not w["hidden"]} for r in results]
    assert [len(s) for s in seeds] == [1, 1]
    assert seeds[0] != seeds[1]


def test_the_verdict_is_shown(problem, astra, tmp_path):
    (tmp_path / "candidate.cu").write_text(KERNEL.replace(LAUNCH, "512, 0, stream"))
    done = astra("confirm", problem, "candidate.cu", "--device", "sim:h200")
    assert done.stdout.splitlines()[-1] == "not established"
    assert "correct: held" in done.stdout
    assert "faster: not established (modelled only: " in done.stdout
    assert "speedup" not in done.stdout


def test_a_baseline_that_fails_is_refused(problem, astra, tmp_path):
    source = problem / "baseline" / "sigmoid.cu"
    source.write_text(KERNEL.replace("1.0f + expf", "1.1f + expf"))
    (tmp_path / "candidate.cu").write_text(KERNEL)
    done = astra("confirm", problem, "candidate.cu", "--device", "sim:h200")
    assert done.returncode == 2
    assert "the baseline failed" in done.stderr


def test_an_interrupt_is_said(problem, start, tmp_path):
    (tmp_path / "candidate.cu").write_text(KERNEL.replace(LAUNCH, "64, 0, stream"))
    process = start("confirm", problem, "candidate.cu", "--device", "sim:h200")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=2)  # it is at work now
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "astra: interrupted\n")
