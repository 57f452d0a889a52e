"""What a second look at a candidate established, claim by claim, and the verdict that follows.

A pure function of evaluations: a run's log holds those, so the verdict on an old run can be read off again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from astra_kernels.records.describe import describe, describe_timing
from astra_kernels.records.evaluation import (
    Crashed,
    Evaluation,
    Measured,
    Modelled,
    Passed,
    Quarantined,
    TimedOut,
    Timing,
    Unsafe,
)
from astra_kernels.records.wins import beats_baseline, stands_out, timed_workloads, won_workloads

Verdict = Literal["confirmed", "refuted", "not established"]


@dataclass(frozen=True, kw_only=True)
class SecondLook:
    """What was judged again, each in new processes with a seed drawn after the candidate was frozen."""

    evaluation: Evaluation | None
    """None when the machine failed; `trouble` says how."""
    control: Evaluation | None = None
    """The baseline against itself by the same method; None where it was nowhere measured to be faster."""
    elsewhere: Evaluation | None = None
    """The candidate, untimed, on a second device; None where there is none."""
    trouble: tuple[str, ...] = ()
    """Parts of the look that the machine could not make, and why."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One thing that is said of a candidate."""

    verdict: Literal["held", "failed", "not established"]
    reason: str


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """The claims that make a better kernel."""

    correct: Claim
    safe: Claim
    faster: Claim
    facts: tuple[str, ...] = ()
    """What else held while it was judged."""

    @property
    def verdict(self) -> Verdict:
        """Confirmed when every claim held, refuted when one failed."""
        verdicts = {c.verdict for c in self.claims.values()}
        if "failed" in verdicts:
            return "refuted"
        return "confirmed" if verdicts == {"held"} else "not established"

    @property
    def claims(self) -> dict[str, Claim]:
        """The claims by name."""
        return {"correct": self.correct, "safe": self.safe, "faster": self.faster}

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is not confirmed; empty when it is."""
        wanted = "failed" if self.verdict == "refuted" else "not established"
        return tuple(f"{n}: {c.reason}" for n, c in self.claims.items() if c.verdict == wanted)


def conclude(look: SecondLook) -> Confirmation:
    """The verdict on a second look."""
    evaluation = look.evaluation
    if not isinstance(evaluation, Passed):
        return _without_passing(evaluation, look.trouble)
    return Confirmation(
        correct=_correct(evaluation, look),
        safe=_safe(evaluation),
        faster=_faster(evaluation.geomean, look),
        facts=_facts(evaluation, look),
    )


def _without_passing(evaluation: Evaluation | None, trouble: tuple[str, ...]) -> Confirmation:
    unknown = "; ".join(trouble) or "nothing was judged"
    said = unknown if evaluation is None else describe(evaluation)
    not_reached = Claim(verdict="not established", reason="not reached")
    if evaluation is None or isinstance(evaluation, Quarantined):
        doubt = Claim(verdict="not established", reason=said)
        return Confirmation(correct=doubt, safe=doubt, faster=doubt)
    failed = Claim(verdict="failed", reason=said)
    if isinstance(evaluation, Unsafe):
        return Confirmation(correct=not_reached, safe=failed, faster=not_reached)
    if isinstance(evaluation, Crashed | TimedOut) and evaluation.stage == "time":
        return Confirmation(correct=not_reached, safe=not_reached, faster=failed)
    return Confirmation(correct=failed, safe=not_reached, faster=not_reached)


def _correct(evaluation: Passed, look: SecondLook) -> Claim:
    other = look.elsewhere
    if other is not None and not isinstance(other, Passed | Quarantined):
        return Claim(verdict="failed", reason=f"on {other.device}: {describe(other)}")
    checked = sum(w.checked for w in evaluation.workloads)
    left_out = len(evaluation.workloads) - checked
    if not checked:
        return Claim(verdict="not established", reason="no workload was checked")
    said = f"on {checked} workloads"
    if left_out:
        said += f"; {left_out} were too large to check on a simulated device"
    return Claim(verdict="held", reason=said)


def _safe(evaluation: Passed) -> Claim:
    if not evaluation.safety:
        return Claim(verdict="not established", reason="no safety tool was run")
    unknown = [f"{c.tool}: {c.detail}" for c in evaluation.safety if c.verdict != "held"]
    if unknown:
        return Claim(verdict="not established", reason="; ".join(unknown))
    said = "; ".join(f"{c.tool}: {c.detail}" for c in evaluation.safety)
    return Claim(verdict="held", reason=said)


def _faster(timing: Timing | None, look: SecondLook) -> Claim:
    said = describe_timing(timing)
    match timing:
        case Measured(ratio_low=low) if low > 1.0:
            doubt = _doubt_of_method(look)
            if doubt:
                return Claim(verdict="not established", reason=f"{said}, but {doubt}")
            return Claim(verdict="held", reason=said)
        case Measured(ratio_high=high) if high <= 1.0:
            return Claim(verdict="failed", reason=said)
        case Measured():
            return Claim(verdict="not established", reason=f"{said}: the interval holds 1")
        case Modelled():
            return Claim(verdict="not established", reason=f"modelled only: {said}")
    return Claim(verdict="not established", reason=said)


def faster_somewhere(look: SecondLook) -> Claim:
    """Whether it is faster at some of the timed workloads, each by itself, whatever the mean over all of them says."""
    evaluation = look.evaluation
    if not isinstance(evaluation, Passed):
        return Claim(verdict="not established", reason="not reached")
    won, timed = won_workloads(evaluation), timed_workloads(evaluation)
    if not won:
        return Claim(verdict="failed", reason="no workload is a win by itself")
    said = f"at {len(won)} of {len(timed)} timed workloads: {', '.join(w.uuid for w in won)}"
    if isinstance(evaluation.geomean, Modelled):
        return Claim(verdict="not established", reason=f"modelled only: {said}")
    if not any(stands_out(w.timing, len(timed)) for w in won):
        doubt = f"of {len(timed)} looked at, so few may be ahead by chance"
        return Claim(verdict="not established", reason=f"{said}, but {doubt}")
    if doubt := _doubt_of_method(look):
        return Claim(verdict="not established", reason=f"{said}, but {doubt}")
    return Claim(verdict="held", reason=said)


def _doubt_of_method(look: SecondLook) -> str:
    """Why a measured ratio is not believed; "" when the baseline against itself came out even.

    What times in separate processes say belongs here too, once they are taken.
    """
    control = look.control
    if look.trouble:
        return "; ".join(look.trouble)
    if control is None:
        return "there is no control of the baseline against itself"
    even = control.geomean if isinstance(control, Passed) else None
    if not isinstance(even, Measured):
        return f"the control of the baseline against itself failed: {describe(control)}"
    if not even.ratio_low <= 1.0 <= even.ratio_high:
        return f"the baseline against itself came out uneven: {describe_timing(even)}"
    return ""


def _facts(evaluation: Passed, look: SecondLook) -> tuple[str, ...]:
    facts = [
        "judged in new processes, on inputs from a seed that was drawn after the candidate was frozen"
    ]
    if evaluation.safety:  # logs from before there was a safety gate do not tell
        facts.append("the stream that it was given, if it takes one, was not the default one")
    if isinstance(evaluation.geomean, Measured):
        facts.append("captured into a CUDA graph, and the replays were timed")
    if isinstance(look.control, Passed) and isinstance(look.control.geomean, Measured):
        facts.append(f"the baseline against itself: {describe_timing(look.control.geomean)}")
    if not beats_baseline(evaluation) and won_workloads(evaluation):
        facts.append(f"faster all the same {faster_somewhere(look).reason}")
    if isinstance(look.elsewhere, Passed):
        facts.append(f"correct on {look.elsewhere.device} too")
    elif look.elsewhere is None:
        facts.append("not judged on a second device")
    return (*facts, *look.trouble)
