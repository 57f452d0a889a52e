"""What has been tried in this run, and what has not."""

from __future__ import annotations

from collections import Counter

from astra_kernels.agents.llm.briefing.outcomes import outcome_line
from astra_kernels.agents.llm.briefing.tables import number, short, table
from astra_kernels.agents.llm.catalogue import CATALOGUE
from astra_kernels.records.history import Attempt, History, gain

OPEN = "open"
"""Technique of a plan that leaves everything to one agent; the candidate's title begins with what it chose."""

_MOST_ATTEMPTS = 40


def attempts_text(history: History) -> str:
    """A row for every attempt: what was expected of it, and what came of it."""
    attempts = history.attempts
    shown = attempts[-_MOST_ATTEMPTS:]
    head = (
        "round",
        "candidate",
        "made from",
        "technique",
        "what was done",
        "predicted gain over its parent",
        "gain over its parent",
        "outcome, and gain over the baseline",
    )
    text = table(head, [_attempt(a, history) for a in shown])
    left_out = len(attempts) - len(shown)
    if left_out:
        text += f"\n({left_out} earlier attempts are left out.)"
    refused = [
        f"- round {r.round}, {r.plan.technique}: {short(r.reason, 300)}"
        for r in history.refusals[-_MOST_ATTEMPTS:]
    ]
    if refused:
        text += "\n\nPlans that the coding agent did not carry out:\n" + "\n".join(refused)
    return text.strip() or "Nothing has been tried yet."


def ideas_text(history: History) -> str:
    """The catalogue, each technique with how often it was tried; those never tried come first."""
    tried = Counter(_technique(a) for a in history.attempts)
    lines = [
        f"- `{idea.key}`: {idea.what}" + (f" (tried {tried[idea.key]} times)" * (idea.key in tried))
        for idea in sorted(CATALOGUE, key=lambda idea: tried[idea.key] > 0)
    ]
    return "\n".join(lines)


def _attempt(attempt: Attempt, history: History) -> tuple[str, ...]:
    return (
        str(attempt.round),
        attempt.candidate.id,
        attempt.candidate.parent or "-",
        _technique(attempt),
        short(attempt.candidate.title, 160),
        number(attempt.plan.predicted_gain),
        number(_over_parent(attempt, history)),
        outcome_line(attempt.evaluation),
    )


def _technique(attempt: Attempt) -> str:
    named = attempt.plan.technique
    return attempt.candidate.title.partition(":")[0] if named == OPEN else named


def _over_parent(attempt: Attempt, history: History) -> float | None:
    """Over the candidate that the plan was made for, which a repaired or rewritten candidate has as well."""
    own = gain(attempt.evaluation)
    parent = gain(history.evaluation_of(attempt.plan.parent))
    return own / parent if own is not None and parent else None
