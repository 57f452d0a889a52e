"""What language models were asked in a run, what it took, and what went wrong: in lines, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from astra_kernels.records.history import History
from astra_kernels.records.model_calls import Asked, Failed, Ledger
from astra_kernels.records.run import Budget

_WORDS = {
    "rate_limited": "rate limit",
    "server_error": "server error",
    "timed_out": "out of time",
    "connection": "connection cut or refused",
    "rejected": "refused by the provider",
    "unusable": "no text",
    "interrupted": "interrupted",
}
_CUT = {"length": "cut off at the limit of tokens", "content_filter": "stopped by a filter"}


def taken(ledger: Ledger) -> str:
    """Requests, tokens and dollars in one phrase."""
    phrase = f"{ledger.requests:,} requests, {ledger.tokens:,} tokens"
    if ledger.unpriced < ledger.requests:
        phrase += f", {ledger.usd:.4f} USD"
    if ledger.unpriced:
        phrase += f" ({ledger.unpriced:,} requests of unknown price)"
    return phrase


def calls_lines(history: History) -> Iterator[str]:
    """What was asked of models, line by line; nothing where none was asked."""
    ledger = history.ledger
    if not ledger.asked:
        return
    yield f"models: {taken(ledger)}"
    limits = _limits(history.config.budget if history.config else Budget())
    if limits:
        yield f"  budget: {limits}"
    failures = Counter(_WORDS[f.kind] for f in ledger.failed.values())
    for what, counted in (
        ("tries without an answer", failures),
        ("requests given up", Counter(_given_up(ledger))),
        ("answers that could not be used, and were sent back", Counter(_sent_back(ledger))),
        ("answers that stopped early", Counter(_stopped(ledger))),
    ):
        if counted:
            named = ", ".join(f"{number} {name}" for name, number in counted.most_common())
            yield f"  {what}: {counted.total()} ({named})"
    if lost := len(_lost(ledger)):
        yield f"  lost in flight: {lost}, charged what was set aside for them"


def calls_document(ledger: Ledger) -> dict[str, Any]:
    """The same as plain JSON values."""
    return {
        "requests": ledger.requests,
        "answered": len(ledger.answered),
        "tokens": ledger.tokens,
        "usd": ledger.usd,
        "unpriced_requests": ledger.unpriced,
        "requests_by_role": dict(Counter(a.role for a in ledger.asked.values())),
        "requests_by_model": dict(Counter(a.model for a in ledger.asked.values())),
        "failures": dict(Counter(f.kind for f in ledger.failed.values())),
        "given_up": dict(Counter(_given_up(ledger))),
        "sent_back": dict(Counter(_sent_back(ledger))),
        "stopped_early": dict(Counter(a.finish for a in ledger.answered.values() if a.finish in _CUT)),
        "lost_in_flight": len(_lost(ledger)),
    }  # fmt: skip


def failure_line(ledger: Ledger, failure: Failed) -> str:
    """A try without an answer, in one line."""
    asked = ledger.asked[failure.call]
    then = "given up" if failure.told else f"try {asked.attempt}"
    return f"{asked.role}: {_WORDS[failure.kind]}, {then}: {' '.join(failure.detail.split())}"


def _given_up(ledger: Ledger) -> list[str]:
    return [ledger.asked[call].role for call, f in ledger.failed.items() if f.told]


def _sent_back(ledger: Ledger) -> list[str]:
    """Roles of the requests that tell a model what was wrong with its answer before."""
    return [a.role for a in ledger.asked.values() if a.attempt == 1 and _is_follow_up(a)]


def _is_follow_up(asked: Asked) -> bool:
    return any(message.author == "assistant" for message in asked.messages)


def _stopped(ledger: Ledger) -> list[str]:
    return [_CUT[a.finish] for a in ledger.answered.values() if a.finish in _CUT]


def _lost(ledger: Ledger) -> set[int]:
    return ledger.asked.keys() - ledger.answered.keys() - ledger.failed.keys()


def _limits(budget: Budget) -> str:
    limits = (
        (budget.requests, "{:,} requests"),
        (budget.tokens, "{:,} tokens"),
        (budget.usd, "{:g} USD"),
    )
    return ", ".join(words.format(limit) for limit, words in limits if limit is not None)
