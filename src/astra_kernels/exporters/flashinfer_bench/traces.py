"""An evaluation as FlashInfer-Bench's traces, one a workload."""

from __future__ import annotations

import math
from collections.abc import Mapping

from astra_kernels.exporters.flashinfer_bench.records import (
    BenchCorrectness,
    BenchEnvironment,
    BenchEvaluation,
    BenchPerformance,
    BenchTrace,
    BenchWorkload,
    Status,
)
from astra_kernels.records.definition import Definition
from astra_kernels.records.describe import describe, describe_timing
from astra_kernels.records.evaluation import (
    BuildFailed,
    Crashed,
    Evaluation,
    Incorrect,
    Measured,
    Passed,
    Quarantined,
    Rejected,
    TimedOut,
    Unsafe,
    WorkloadResult,
)

_STEP = {
    "float64": 2.0**-52,
    "float32": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e4m3fn": 2.0**-3,
    "float8_e5m2": 2.0**-2,
}
"""The largest ratio of a unit in the last place to a normal number."""
_STATUS: dict[type[Evaluation], Status] = {
    BuildFailed: "COMPILE_ERROR",
    Rejected: "RUNTIME_ERROR",
    Crashed: "RUNTIME_ERROR",
    Unsafe: "RUNTIME_ERROR",
    TimedOut: "TIMEOUT",
    Incorrect: "INCORRECT_NUMERICAL",
}


def traces_of(
    solution: str,
    definition: Definition,
    workloads: Mapping[str, BenchWorkload],
    judged: tuple[Evaluation, str],
) -> tuple[tuple[BenchTrace, ...], tuple[BenchTrace, ...]]:
    """Traces in FlashInfer-Bench's sense, and what is of their form but has no measured time.

    Hidden workloads have none: their inputs are nobody's to repeat. A failure on one, as one that no workload is
    named for, stands under every workload. A quarantined candidate has no trace, as no status says so.

    Args:
        solution: its name.
        definition: of the problem.
        workloads: by identifier.
        judged: an evaluation, and when it was made, in ISO 8601.
    """
    evaluation, when = judged
    if isinstance(evaluation, Quarantined):
        return (), ()
    if isinstance(evaluation, Passed):
        made = [
            _trace(
                solution, definition, workloads[w.uuid], _passed(evaluation, w, definition, when)
            )
            for w in evaluation.workloads
            if w.checked and not w.hidden and w.uuid in workloads
        ]
    else:
        named = str(getattr(evaluation, "workload", None))
        where = [workloads[named]] if named in workloads else list(workloads.values())
        failed = _failed(evaluation, when)
        made = [_trace(solution, definition, w, failed) for w in where]
    complete = tuple(t for t in made if t.evaluation is not None and t.evaluation.complete)
    return complete, tuple(t for t in made if t not in complete)


def _trace(
    solution: str, definition: Definition, workload: BenchWorkload, found: BenchEvaluation
) -> BenchTrace:
    return BenchTrace(
        definition=definition.name, workload=workload, solution=solution, evaluation=found
    )


def _passed(
    evaluation: Passed, result: WorkloadResult, definition: Definition, when: str
) -> BenchEvaluation:
    timing = result.timing
    performance = None
    log = f"Astra: passed; {describe_timing(timing)}."
    if isinstance(timing, Measured):
        performance = BenchPerformance(
            latency_ms=timing.candidate_us / 1e3,
            reference_latency_ms=timing.baseline_us / 1e3,
            speedup_factor=timing.ratio,
        )
        log += (
            f" Device time by CUDA graph replay, {timing.cache} caches; reference_latency_ms is the time of the "
            "existing kernel that the solution replaces, not of the definition's reference."
        )
    return BenchEvaluation(
        status="PASSED",
        environment=_environment(evaluation),
        timestamp=when,
        log=log,
        correctness=_correctness(result, definition),
        performance=performance,
    )


def _correctness(result: WorkloadResult, definition: Definition) -> BenchCorrectness:
    relative = [
        a.max_ulp * _STEP.get(definition.outputs[a.output].dtype, 0.0)
        for a in result.accuracy
        if a.output in definition.outputs
    ]
    return BenchCorrectness(
        max_absolute_error=max((a.max_abs for a in result.accuracy), default=0.0),
        max_relative_error=max(relative, default=0.0),
        extra={
            "max_ulp": max((a.max_ulp for a in result.accuracy), default=0.0),
            "rms_ulp": max((a.rms_ulp for a in result.accuracy), default=0.0),
            "max_relative_error_is": "the bound that max_ulp sets for normal numbers",
        },
    )


def _failed(evaluation: Evaluation, when: str) -> BenchEvaluation:
    correctness = None
    if isinstance(evaluation, Incorrect):
        wanted, got = _number(evaluation.expected), _number(evaluation.got)
        error = abs(got - wanted)
        correctness = BenchCorrectness(
            max_absolute_error=error,
            max_relative_error=error / abs(wanted) if wanted else math.inf,
            extra={
                "mismatches": evaluation.mismatches,
                "elements": evaluation.elements,
                "errors_are": "of the worst place",
            },
        )
    return BenchEvaluation(
        status=_STATUS[type(evaluation)],
        environment=_environment(evaluation),
        timestamp=when,
        log=f"Astra: {describe(evaluation)}",
        correctness=correctness,
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _environment(evaluation: Evaluation) -> BenchEnvironment:
    device = evaluation.device
    simulated = device.startswith("sim:")
    hardware = f"{device} (simulated)" if simulated else "_".join(device.split()[1:]) or device
    return BenchEnvironment(
        hardware=hardware, libs={str(k): str(v) for k, v in evaluation.environment.items()}
    )
