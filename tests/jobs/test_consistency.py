"""Repeatability and batch invariance of whole jobs on the simulated device, with sums of magnitudes in float32."""

import dataclasses

import pytest

from astra_kernels.jobs.consistency import floating_atomics
from astra_kernels.jobs.spec import (
    ArgumentSpec,
    InputSpec,
    SmallerBatch,
    TensorSpec,
    WorkloadSpec,
)
from astra_kernels.records.evaluation import Consistency, Passed

REFERENCE = """
import numpy as np


def run(x):
    return np.abs(x.astype(np.float64)).sum(axis=1).astype(np.float32)


def reference_fp64(x):
    return np.abs(x.astype(np.float64)).sum(axis=1)
"""

SUM = r"""
#include <cuda_runtime.h>

__global__ void row_sums(float* out, const float* in, int columns, int first) {
  const float* row = in + (long long)blockIdx.x * columns;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += 32) sum += fabsf(row[(i + first) % columns]);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

static int calls = 0;

extern "C" int sums(float* out, const float* in, int rows, int columns, cudaStream_t stream) {
  int first = 0;
  row_sums<<<rows, 32, 0, stream>>>(out, in, columns, first);
  return cudaGetLastError();
}
"""

BY_BATCH = SUM.replace("int first = 0;", "int first = rows < 40 ? 7 : 0;")
BY_CALL = SUM.replace("int first = 0;", "int first = 7 * calls++;")
ATOMIC = (
    SUM.replace(
        "float sum = 0.0f;", "if (threadIdx.x == 0) out[blockIdx.x] = 0.0f;\n  __syncwarp();"
    )
    .replace(
        "sum += fabsf(row[(i + first) % columns]);",
        "atomicAdd(out + blockIdx.x, fabsf(row[(i + first) % columns]));",
    )
    .replace("for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);", "")
    .replace("if (threadIdx.x == 0) out[blockIdx.x] = sum;", "")
)
ATOMIC_BY_CALL = ATOMIC.replace("int first = 0;", "int first = 7 * calls++;")
BY_LUCK = SUM.replace(
    "float sum = 0.0f;", "float sum = 0.0f; first = __float_as_int(out[blockIdx.x]) & 7;"
)


def workload(uuid, rows, columns, **changes):
    smaller = tuple(
        SmallerBatch(axes={"rows": fewer, "columns": columns})
        for fewer in sorted({1, rows // 2} - {0, rows})
    )
    return WorkloadSpec(
        uuid=uuid,
        axes={"rows": rows, "columns": columns},
        seed=5,
        inputs={"x": InputSpec(type="random", distribution="uniform")},
        timed=False,
        smaller=smaller,
        **changes,
    )


FIELDS = {
    "arguments": (
        ArgumentSpec(name="y", kind="output", ctype="pointer"),
        ArgumentSpec(name="x", kind="input", ctype="pointer"),
        ArgumentSpec(name="rows", kind="axis", ctype="int32"),
        ArgumentSpec(name="columns", kind="axis", ctype="int32"),
        ArgumentSpec(name="stream", kind="stream", ctype="stream"),
    ),
    "inputs": (TensorSpec(name="x", dtype="float32", shape=("rows", "columns")),),
    "outputs": (TensorSpec(name="y", dtype="float32", shape=("rows",)),),
    "workloads": (workload("wide", 64, 1500), workload("narrow", 33, 100)),
    "batch_axis": "rows",
    "reference": REFERENCE,
}


@pytest.fixture
def sums(judge_job):
    """Judges a kernel beside a baseline; None for the baseline alone."""

    def judged(kernel, baseline=SUM, **changes):
        return judge_job(kernel, baseline, entry="sums", **{**FIELDS, **changes})

    return judged


BOTH = Consistency(repeatable=True, batch_invariant=True)


def test_a_kernel_that_is_both(sums):
    outcome = sums(SUM + "// another")
    assert isinstance(outcome, Passed), outcome
    assert (outcome.consistency, outcome.baseline_consistency) == (BOTH, BOTH)
    assert outcome.findings == ()


def test_a_sum_that_is_split_by_batch_size(sums):
    outcome = sums(BY_BATCH)
    assert isinstance(outcome, Passed), "reported, not rejected"
    assert outcome.consistency.repeatable
    assert outcome.consistency.batch_invariant is False
    assert "'y' of wide differs in a smaller batch with" in outcome.consistency.detail
    assert outcome.baseline_consistency == BOTH
    (finding,) = outcome.findings
    assert "not batch invariant, as the baseline is" in finding


def test_it_is_no_loss_where_the_baseline_is_not_invariant_either(sums):
    outcome = sums(BY_BATCH + "// the same", BY_BATCH)
    assert (
        outcome.consistency.batch_invariant is outcome.baseline_consistency.batch_invariant is False
    )
    assert outcome.findings == ()


def test_invariance_known_from_an_earlier_job(sums):
    """The baseline does not run again on a simulated device when its errors are known."""
    alone = sums(None)
    assert alone.consistency == BOTH
    known = [
        dataclasses.replace(w, baseline_accuracy=row.accuracy)
        for w, row in zip(FIELDS["workloads"], alone.workloads, strict=True)
    ]
    outcome = sums(BY_BATCH, "no source", workloads=known, baseline_consistency=alone.consistency)
    assert outcome.baseline_consistency == BOTH
    assert "not batch invariant" in outcome.findings[0]


@pytest.mark.parametrize("kernel", [BY_CALL, BY_LUCK])
def test_two_calls_that_disagree_without_a_reason(sums, kernel):
    outcome = sums(kernel)
    assert (outcome.outcome, outcome.output) == ("incorrect", "y")
    assert "two calls on the same inputs disagree" in outcome.rule
    assert float(outcome.expected) != float(outcome.got)
    assert float(outcome.expected) == pytest.approx(float(outcome.got), rel=1e-3)


def test_floating_atomics_explain_two_calls_that_disagree(sums):
    outcome = sums(ATOMIC_BY_CALL, ATOMIC)
    assert isinstance(outcome, Passed), outcome
    assert outcome.consistency.repeatable is False
    assert outcome.baseline_consistency.repeatable
    (finding,) = [f for f in outcome.findings if "two calls" in f]
    assert "F32" in finding
    assert "the baseline is repeatable" in finding


def test_atomics_in_the_order_of_the_simulator_are_repeatable(sums):
    assert sums(ATOMIC + "// the same", ATOMIC).consistency == BOTH


def test_a_baseline_that_is_not_repeatable_is_recorded(sums):
    alone = sums(None, BY_CALL)
    assert isinstance(alone, Passed), "a finding, no failure of the problem"
    assert alone.consistency.repeatable is False
    beside = sums(BY_CALL + "// the same", BY_CALL)
    assert isinstance(beside, Passed), "held to no more than the baseline"
    assert "the baseline's do so too" in "".join(beside.findings)
    assert beside.baseline_consistency.repeatable is False


def test_a_result_that_is_kept_from_the_first_call(sums):
    """Nothing is launched the second time, so that the output stays as it was: two calls disagree."""
    outcome = sums(SUM.replace("int first = 0;", "int first = 0;\n  if (calls++ >= 2) return 0;"))
    assert outcome.outcome == "incorrect"
    assert "disagree" in outcome.rule


def test_a_crash_in_a_second_call_is_a_crash(sums):
    outcome = sums(
        SUM.replace("int first = 0;", "int first = 0;\n  if (calls++ >= 2) __builtin_trap();")
    )
    assert (outcome.outcome, outcome.stage) == ("crashed", "correctness")


def test_a_crash_in_a_smaller_batch_is_said(sums):
    outcome = sums(
        SUM.replace("int first = 0;", "int first = 0;\n  if (rows < 3) __builtin_trap();")
    )
    assert isinstance(outcome, Passed)
    assert outcome.consistency.repeatable
    assert "further call failed" in outcome.consistency.detail


def test_without_a_batch_axis_invariance_is_not_established(sums):
    bare = [dataclasses.replace(w, smaller=()) for w in FIELDS["workloads"]]
    outcome = sums(BY_BATCH, workloads=bare, batch_axis=None)
    assert outcome.consistency.batch_invariant is None
    assert "not established: no axis leads every output" in outcome.consistency.detail


@pytest.mark.parametrize(
    ("opcode", "floating"),
    [
        ("RED.E.ADD.F32.FTZ.RN.STRONG.GPU", True),
        ("ATOMG.E.ADD.F64.RN.STRONG.GPU", True),
        ("RED.E.ADD.F16x2.RN.STRONG.GPU", True),
        ("ATOMS.CAST.SPIN", True),
        ("UBLKRED.S.G.ADD", True),
        ("RED.E.ADD.STRONG.GPU", False),
        ("ATOMS.POPC.INC.32", False),
        ("ATOMG.E.INC.STRONG.GPU", False),
        ("FADD.FTZ", False),
    ],
)
def test_atomics_on_floating_point_numbers(opcode, floating):
    assert (floating_atomics({"k": {"MOV": 3, opcode: 1}}) is not None) is floating
