"""The search at a glance: what was tried on what, predicted beside outcome, why the rest failed, how near the roofline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from astra_kernels.records.evaluation import Evaluation, Passed
from astra_kernels.records.history import History
from astra_kernels.reporting.attempts import AttemptFact, attempt_facts
from astra_kernels.reporting.ceilings import ceiling_of, points

_COLUMNS = {"round": 110, "candidate": 90, "what was tried": 0, "predicted": 60, "gain": 0}
"""The least width of a terminal that shows them."""


def search(console: Console, history: History) -> None:
    """Prints the tree of candidates, refusals and failures by kind, and the roofline."""
    facts = attempt_facts(history)
    if facts:
        console.print(_tree(facts, console.width))
    for line in (*_failures(facts), *_refusals(history), *_roofline(history)):
        console.print(escape(line), highlight=False)


def _tree(facts: tuple[AttemptFact, ...], width: int) -> Table:
    names = [name for name, least in _COLUMNS.items() if width >= least]
    table = Table(*(Column(name, overflow="fold") for name in names))
    for fact in facts:
        style = "bold green" if fact.best else "green" if fact.wins else ""
        cells = _cells(fact)
        table.add_row(*(escape(cells[name]) for name in names), style=style)
    return table


def _cells(fact: AttemptFact) -> dict[str, str]:
    branch = "  " * (fact.depth - 1) + ("└ " if fact.depth > 1 else "")
    return {
        "round": str(fact.round),
        "candidate": fact.id,
        "what was tried": f"{branch}{fact.title or fact.technique}{' (best)' if fact.best else ''}",
        "predicted": f"{fact.predicted:.2f}",
        "gain": _gain(fact),
    }


def _gain(fact: AttemptFact) -> str:
    """What it gained over the baseline and how that is known, or how it failed."""
    if fact.failed:
        return fact.outcome.replace("_", " ")
    if fact.gain is None:
        return "not timed"
    if fact.kind == "measured" and fact.low is not None and fact.high is not None:
        return f"{fact.gain:.3f} [{fact.low:.3f}, {fact.high:.3f}]"
    return f"{fact.gain:.3f} {fact.kind}"


def _failures(facts: tuple[AttemptFact, ...]) -> Iterator[str]:
    """One line for each way to fail, with how often and one that did."""
    failed = [fact for fact in facts if fact.failed]
    for outcome, count in Counter(fact.outcome for fact in failed).most_common():
        first = next(fact for fact in failed if fact.outcome == outcome)
        others = f" ({count} of them)" if count > 1 else ""
        yield f"{outcome.replace('_', ' ')}{others}: {first.title or first.id}: {first.summary}"


def _refusals(history: History) -> Iterator[str]:
    """One line for each technique that could not be carried out, with the reasons."""
    reasons: dict[str, Counter[str]] = {}
    for refusal in history.refusals:
        reasons.setdefault(refusal.plan.technique, Counter())[refusal.reason] += 1
    for technique, counted in reasons.items():
        times = f" {counted.total()} times" if counted.total() > 1 else ""
        yield f"{technique} refused{times}: {'; '.join(counted)}"


def _roofline(history: History) -> Iterator[str]:
    """How near baseline and the fastest candidate come to what the memory allows."""
    judged = _fastest(history) or history.baseline_evaluation
    found = {
        "baseline": points(judged, baseline=True),
        "fastest": points(judged) if judged is not history.baseline_evaluation else (),
    }
    ceiling = ceiling_of(judged)
    said = []
    datasheet = float((judged.environment if judged else {}).get("device_bandwidth_gb_s", 0))
    for name, attained in found.items():
        roofs = (ceiling.rate_gb_s(p.minimum_bytes) if ceiling else datasheet for p in attained)
        shares = [p.rate_gb_s / roof for p, roof in zip(attained, roofs, strict=True) if roof]
        if shares:
            ends = dict.fromkeys((f"{min(shares):.0%}", f"{max(shares):.0%}"))
            said.append(f"{name} {' to '.join(ends)}")
    if said:
        of = (
            f"the roofline (a copy's {ceiling.copy_gb_s / 1e3:.2f} TB/s, {ceiling.launch_us:.2f} us of an empty launch)"
            if ceiling
            else f"the datasheet's bandwidth ({datasheet / 1e3:.2f} TB/s), modelled"
        )
        yield f"{', '.join(said)} of {of}"


def _fastest(history: History) -> Evaluation | None:
    """The last look at the best candidate, or the best evaluation of the search."""
    best = history.finished.best if history.finished else None
    looks = [r.evaluation for r in history.remeasured if r.candidate == best]
    if looks:
        return looks[-1]
    ranked = history.ranked()
    passed = [a.evaluation for a in ranked if isinstance(a.evaluation, Passed)]
    return passed[0] if passed else None
