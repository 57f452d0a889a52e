"""Outcomes in one sentence, for people and agents alike."""

from __future__ import annotations

from typing import assert_never

from astra_kernels.records.evaluation import (
    BuildFailed,
    Crashed,
    Evaluation,
    Incorrect,
    Measured,
    Modelled,
    NotEstablished,
    Passed,
    Quarantined,
    Rejected,
    TimedOut,
    Timing,
    Unsafe,
)


def describe(evaluation: Evaluation) -> str:
    """What happened, with the most useful detail."""
    match evaluation:
        case BuildFailed():
            return f"does not build: {_first_message(evaluation)}"
        case Rejected():
            return f"rejected by rule {evaluation.rule}: {evaluation.detail}"
        case Crashed():
            return f"crashed in {evaluation.stage}{_on(evaluation.workload)}: {evaluation.detail}"
        case TimedOut():
            detail = f": {evaluation.detail}" if evaluation.detail else ""
            if not evaluation.limit_s:
                return f"ran out of steps in {evaluation.stage}{_on(evaluation.workload)}{detail}"
            return f"ran out of {evaluation.limit_s:g} s in {evaluation.stage}{_on(evaluation.workload)}{detail}"
        case Incorrect(output=""):
            return f"incorrect on a hidden workload: {evaluation.rule}"
        case Incorrect():
            index = ", ".join(str(i) for i in evaluation.index)
            return (
                f"incorrect{_on(evaluation.workload)}: {evaluation.output}[{index}] is {evaluation.got}, "
                f"expected {evaluation.expected} ({evaluation.rule})"
            )
        case Unsafe():
            return f"unsafe{_on(evaluation.workload)}: {evaluation.kind} in {_place(evaluation)}: {evaluation.detail}"
        case Quarantined():
            return f"quarantined{_on(evaluation.workload)}: {evaluation.reason}"
        case Passed():
            return f"passed, {describe_timing(evaluation.geomean)}"
    assert_never(evaluation)


def describe_timing(timing: Timing | None) -> str:
    """A time in words; a modelled one is never called a speedup."""
    match timing:
        case None:
            return "not timed"
        case Measured():
            return (
                f"measured {timing.ratio:.3f}x of the baseline's speed "
                f"[{timing.ratio_low:.3f}, {timing.ratio_high:.3f}]"
            )
        case Modelled():
            return f"modelled gain {timing.gain:.3f} (model error {timing.model_error:.0%})"
        case NotEstablished():
            return f"time not established: {timing.reason}"
    assert_never(timing)


def _first_message(evaluation: BuildFailed) -> str:
    for message in evaluation.messages:
        if message.severity == "error":
            place = f"{message.file}:{message.line}: " if message.file else ""
            return f"{place}{message.message}"
    return evaluation.log.strip().splitlines()[-1] if evaluation.log.strip() else "no message"


def _on(workload: str | None) -> str:
    return f" on {workload}" if workload else ""


def _place(evaluation: Unsafe) -> str:
    place = evaluation.kernel
    if evaluation.block is not None:
        place += f" block {evaluation.block}"
    if evaluation.thread is not None:
        place += f" thread {evaluation.thread}"
    if evaluation.file is not None:
        place += f" at {evaluation.file}:{evaluation.line}"
    return place
