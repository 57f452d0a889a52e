"""Outcomes as authors of candidates may know them: what to mend, never how doubt arises or what is hidden.

Evaluations reach agents redacted already. What is said here of hidden workloads, of results that are not believed and of
unmeasured time is a word more careful still, since these texts leave the machine.
"""

from __future__ import annotations

from collections.abc import Mapping

from astra_kernels.agents.llm.briefing.tables import short
from astra_kernels.agents.llm.briefing.times import gain_text
from astra_kernels.agents.llm.replies.fences import fenced
from astra_kernels.records.describe import describe
from astra_kernels.records.evaluation import (
    BuildFailed,
    CompilerMessage,
    Evaluation,
    Incorrect,
    Passed,
    Quarantined,
    Rejected,
    TimedOut,
    Unsafe,
)

_MOST_MESSAGES = 20
_MOST_CHARACTERS = 6_000
_NOT_BELIEVED = (
    "set aside: its results or its time cannot be believed; all work has to be done in every call"
)


def outcome_line(evaluation: Evaluation) -> str:
    """What happened, in one line."""
    if isinstance(evaluation, Passed):
        timing = evaluation.geomean
        return f"passed, {'not timed' if timing is None else gain_text(timing)}"
    if isinstance(evaluation, Quarantined) or (
        isinstance(evaluation, Rejected) and evaluation.rule == "tampered"
    ):
        return _NOT_BELIEVED
    if evaluation.hidden:
        return f"{evaluation.outcome} on a hidden workload of the kind: {evaluation.hidden}"
    if isinstance(evaluation, TimedOut):
        place = f" on {evaluation.workload}" if evaluation.workload else ""
        return f"did not end in time in {evaluation.stage}{place}"
    return short(describe(evaluation), 400)


def failure_text(evaluation: Evaluation, sources: Mapping[str, str]) -> str:
    """Everything that helps to mend a candidate."""
    if evaluation.hidden and not isinstance(evaluation, Passed):
        return (
            f"It is {outcome_line(evaluation)}. Sizes, values and places are not told: the code has to be right for every "
            "size that the axes allow and for every value."
        )
    match evaluation:
        case BuildFailed():
            return _build(evaluation, sources)
        case Incorrect():
            sizes = ", ".join(f"{n}={size}" for n, size in evaluation.axes.items())
            index = ", ".join(map(str, evaluation.index))
            return (
                f"It gives a wrong result on workload {evaluation.workload} ({sizes}): {evaluation.output}[{index}] is "
                f"{evaluation.got}, expected {evaluation.expected}. {evaluation.mismatches} of {evaluation.elements} "
                f"elements differ. Broken rule: {evaluation.rule}"
            )
        case Unsafe():
            return f"It is {outcome_line(evaluation)}." + _line_of(evaluation, sources)
        case _:
            return f"It {outcome_line(evaluation)}."


def _build(evaluation: BuildFailed, sources: Mapping[str, str]) -> str:
    """Errors first, each with its source line; the end of the log where the compiler's messages were not understood."""
    ordered = sorted(evaluation.messages, key=lambda m: m.severity != "error")
    told = [m for m in ordered if m.severity != "note"][:_MOST_MESSAGES]
    text = "\n".join(_message(m, sources) for m in told)
    if not any(m.severity == "error" for m in told):
        text = f"{text}\n{evaluation.log.strip()[-_MOST_CHARACTERS:]}".strip()
    left_out = len(evaluation.messages) - len(told)
    more = f"\n({left_out} more messages)" if left_out > 0 else ""
    return "It does not build:\n" + fenced(text[:_MOST_CHARACTERS] + more + "\n", "text").rstrip()


def _message(message: CompilerMessage, sources: Mapping[str, str]) -> str:
    place = f"{message.file}:{message.line}: " if message.file else ""
    code = _source_line(sources, message.file, message.line)
    return f"{place}{message.severity}: {message.message}" + (f"\n    {code}" if code else "")


def _line_of(evaluation: Unsafe, sources: Mapping[str, str]) -> str:
    code = _source_line(sources, evaluation.file, evaluation.line)
    return f" The line is: `{code}`" if code else ""


def _source_line(sources: Mapping[str, str], file: str | None, line: int | None) -> str:
    lines = sources.get(file or "", "").split("\n")
    return lines[line - 1].strip()[:200] if line and 0 < line <= len(lines) else ""
