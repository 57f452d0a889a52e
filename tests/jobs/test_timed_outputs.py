"""Timed calls are judged by the baseline's error on their own inputs, and a job does not lock itself out."""

import fcntl
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from astra_kernels.jobs.correctness import Subject, check
from astra_kernels.jobs.memory import mapped, result_area
from astra_kernels.jobs.prepare import Bench
from astra_kernels.jobs.programs import Workshop
from astra_kernels.jobs.supervise import Setting, run_child
from astra_kernels.jobs.timed_outputs import BaselineAgain, TimedCall, _found, verify_timed
from astra_kernels.jobs.wire import Request, Turn
from tests.jobs.staging import FAST, SILU, WORKLOADS, silu_spec, stage, workload

TURN = Turn(key=12345, index=1)
TIMED = (workload("even", 4, 256),)


class Job:
    """A job on a simulated device whose baseline is built, as far as the time gate needs it."""

    def __init__(self, folder, toolchain, cache):
        directory = stage(folder / "job", SILU, FAST, workloads=TIMED)
        spec = silu_spec(workloads=TIMED)
        self.bench = Bench(spec, directory)
        self.shop = Workshop(directory, toolchain, cache, 120.0)
        built = self.shop.build(spec.baseline)
        self.program = self.shop.wired(built, spec.baseline)
        self.prepared = self.bench.prepared(spec.workloads[0])
        self.again = BaselineAgain(
            program=self.program, cuda_runtime=str(self.shop.cuda_runtime), deadline_s=60
        )

    def errors(self):
        """The baseline's on the inputs as they were drawn."""
        subject = Subject(
            program=self.program,
            source_root="",
            cuda_runtime=str(self.shop.cuda_runtime),
            baseline=None,
        )
        checked, failure = check(self.bench, subject, self.bench.spec.workloads)
        assert failure is None
        return checked.accuracy

    def timed(self):
        """What the baseline leaves after a call on turned inputs."""
        found = _found(self.bench, self.prepared, TURN)
        result = found.new_result()
        request = Request(
            task="check", device="sim:h200", cuda_runtime=str(self.shop.cuda_runtime),
            programs=(self.program,), calls=(found.call((result,)),),
        )  # fmt: skip
        assert run_child(request, Setting(60), lambda event, at: True).ending is None
        os.close(found.image_fd)
        return result


@pytest.fixture
def job(tmp_path, toolchain, build_cache):
    made = Job(tmp_path, toolchain, build_cache)
    yield made
    made.bench.release(made.bench.spec.workloads)
    made.bench.close()


def exact(errors):
    """As if the baseline had hit every value on the inputs as drawn."""
    return {
        uuid: tuple(replace(a, max_ulp=0.0, rms_ulp=0.0, mismatches=0) for a in outputs)
        for uuid, outputs in errors.items()
    }


def test_what_the_baseline_errs_on_these_inputs_is_allowed(job):
    errors = exact(job.errors())
    call = TimedCall(TURN, job.timed())
    assert verify_timed(job.bench, job.prepared, call, (errors, {}), job.again) is None


def test_a_baseline_that_cannot_be_called_again_allows_nothing(job):
    errors = exact(job.errors())
    nobody = replace(job.again, program=replace(job.program, symbol="nobody"))
    call = TimedCall(TURN, job.timed())
    outcome = verify_timed(job.bench, job.prepared, call, (errors, {}), nobody)
    assert outcome.outcome == "incorrect"
    assert "outputs of a timed call" in outcome.rule


def test_a_wrong_output_stays_wrong(job):
    right = job.timed()
    wrong = result_area("wrong", job.prepared.layout.size)
    data = mapped(right).copy()
    buffer = job.prepared.layout.buffer("out")
    values = data[buffer.offset : buffer.offset + buffer.size].view(np.float16)
    values[100] += 1
    os.pwrite(wrong, data.tobytes(), 0)
    call = TimedCall(TURN, wrong)
    outcome = verify_timed(job.bench, job.prepared, call, (job.errors(), {}), job.again)
    assert outcome.outcome == "incorrect"
    assert outcome.workload == "even"


def test_a_job_that_is_alone_on_a_device_may_use_it_and_nobody_else(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spec = {"device": "cuda:0", "workloads": WORKLOADS[:1]}
    bench = Bench(silu_spec(**spec), stage(tmp_path / "job", **spec))
    try:
        with bench.device_alone(), bench.device_in_use():  # would wait for itself for ever
            (path,) = Path(tmp_path).glob("astra-*.lock")
            with path.open() as other, pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        with path.open() as other:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        bench.close()
