"""The text of the pull request: what reviewers need to judge a change without trusting who made it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from astra_kernels.exporters import wording
from astra_kernels.exporters.change import Change
from astra_kernels.exporters.proof import Proved
from astra_kernels.exporters.templating import render
from astra_kernels.exporters.trace import Share
from astra_kernels.exporters.winner import Step, Winner
from astra_kernels.records.evaluation import Measured, Modelled
from astra_kernels.records.problem import Problem


@dataclass(frozen=True)
class Told:
    """Everything that the text is about."""

    problem: Problem
    winner: Winner
    change: Change
    proofs: tuple[Proved, ...]
    added: tuple[str, ...]
    """Test and benchmark, by their path in the tree."""
    no_scripts: str
    """Why there are none; "" where there are."""
    missing: tuple[str, ...]
    share: Share | None
    commands: tuple[str, ...]
    caveats: tuple[str, ...] = ()
    """What of the tree's builds was not tried."""


def pull_request(told: Told) -> str:
    """The text, in Markdown."""
    winner, change, problem = told.winner, told.change, told.problem
    assert problem.provenance is not None, "find_originals refuses such a problem"
    symbol = problem.provenance.symbol
    kind = "modelled, nothing measured" if winner.modelled else f"measured on {winner.gpu}"
    facts: dict[str, object] = {
        "title": f"{symbol}: a kernel for some sizes ({kind})",
        "modelled": winner.modelled,
        "everywhere": winner.everywhere,
        "steps": [_step(step) for step in winner.steps],
        "new_path": change.new_path,
        "namespace": change.namespace,
        "operator_file": change.operator_file,
        "entry": problem.provenance.entry.name,
        "other_files": [f"`{path}` (new)" for path in told.added]
        or [f"No test and no benchmark: {told.no_scripts}."],
        "guard_lines": [
            f"compute capability {change.guard.capability // 10}.{change.guard.capability % 10}, that of {winner.gpu}",
            *change.guard.words,
        ],
        "regions_said": wording.regions_said(change.regions),
        "times_said": wording.times_said(winner),
        "table": wording.table(winner, change.regions),
        "timing_facts": list(wording.timing_facts(winner)),
        "correctness": list(wording.correctness(winner)),
        "safety": list(wording.safety(winner)),
        "proofs": [
            {"name": p.name, "word": word_of(p), "said": p.said.replace("|", "\\|")}
            for p in told.proofs
        ],
        "not_tested": list(_not_tested(told)),
        "end_to_end": _end_to_end(told),
        "reproduce": told.commands,
    }
    return render("PULL_REQUEST.md", facts)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _step(step: Step) -> str:
    """What was changed, why, and at what risk, as far as its author said."""
    parts = [
        step.title,
        step.plan.hypothesis or "Why is not said",
        f"Technique: {step.plan.technique}",
    ]
    if step.plan.risk:
        parts.append(f"Risk that was seen: {step.plan.risk}")
    return " ".join(f"{text[:1].upper()}{text[1:].rstrip('.')}." for text in map(_one_line, parts))


def word_of(proof: Proved) -> str:
    """Established, failed, or not established."""
    if proof.established:
        return "established"
    return "failed" if proof.failed else "not established"


def _not_tested(told: Told) -> Iterator[str]:
    winner, capability = told.winner, told.change.guard.capability
    yield (
        f"Other GPUs of compute capability {capability // 10}.{capability % 10} than {winner.gpu}: the guard lets them in, "
        "and they may be slower"
    )
    yield (
        "Sizes inside of a range that are not in the table: their correctness rests on the hidden workloads and on up to "
        "six sizes of each range that the patched tree was judged at, their time on nothing"
    )
    if fixed := told.change.guard.constants:
        yield (
            f"Calls for which not {' and '.join(f'`{c}`' for c in fixed)}: no workload has another value, and the old code runs"
        )
    yield from told.caveats
    yield "Tensors that overlap otherwise than by starting at the same address"
    if winner.modelled:
        yield "Time on any GPU"
    if winner.remeasured.elsewhere is None:
        yield "A second GPU"
    for path in told.missing:
        yield f"Whether `{path}` is what it was: it is not in this tree"
    for proof in told.proofs:
        if not proof.established and not proof.failed:
            yield f"{proof.name}: {proof.said}"
    for claim, said in winner.confirmation.claims.items():
        if said.verdict != "held" and (claim != "faster" or winner.everywhere):
            yield f"{claim}: {said.reason}"


def _end_to_end(told: Told) -> str:
    share = told.share
    if share is None:
        return "Not established: no trace of a serving run was given (--trace TRACE.json)."
    text = (
        f"By the trace, the operator's kernels ran {share.calls} times and took {share.operator_us / 1e3:.3f} ms of "
        f"{share.all_us / 1e3:.3f} ms of all kernels: {share.share:.2%}. If it took no time at all, everything would be "
        f"{share.bound:.4f} times as fast at most (Amdahl)."
    )
    match told.winner.evaluation.geomean:
        case Measured(ratio=ratio):
            at = f"At the measured mean of {ratio:.3f} on every call: {share.end_to_end(ratio):.4f}"
            return f"{text} {at}. Not measured end to end."
        case Modelled(gain=gain):
            at = f"At the modelled gain of {gain:.3f} on every call: {share.end_to_end(gain):.4f}"
            return f"{text} {at}, modelled. Not measured."
    return text
