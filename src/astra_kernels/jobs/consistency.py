"""Further calls on inputs that a program got right: does it give the same bits again, and in a smaller batch?

The calls are made by the same child, on fresh memory: the same inputs, other random bytes everywhere else. Their
bytes are compared here; what the child says of itself has no part in it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from astra_kernels.jobs.inputs import shape_of
from astra_kernels.jobs.judge import text_of, values_of
from astra_kernels.jobs.layout import produces, total_elements
from astra_kernels.jobs.prepare import Bench, Prepared
from astra_kernels.jobs.spec import WorkloadSpec
from astra_kernels.records.dtypes import dtype_bytes
from astra_kernels.records.evaluation import Consistency, Incorrect

REPEATED = 2
"""Workloads of a set that are called twice, and as many whose smaller batches are called."""
_MOST_ELEMENTS, _MOST_ELEMENTS_SIMULATED = 1 << 24, 1 << 20
_ATOMICS = ("ATOM", "ATOMG", "ATOMS", "RED", "REDG", "REDAS", "UREDGR")
_REDUCING_COPIES = ("UTMAREDG", "UBLKRED")
_FLOATING = ("F16", "BF16", "F32", "F64", "CAS", "CAST")
"""Of atomics on floating-point numbers; additions of types without an instruction are loops around CAS."""
DISAGREE = "two calls on the same inputs disagree"


@dataclass
class Observed:
    """What further calls of one program showed."""

    repeated: int = 0
    disagreement: Incorrect | None = None
    """The first place where a second call differs; `expected` is the first call's value."""
    compared: int = 0
    """Smaller batches."""
    variant: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    def take(self, other: Observed) -> None:
        """Adds what another set of workloads showed."""
        self.repeated += other.repeated
        self.disagreement = self.disagreement or other.disagreement
        self.compared += other.compared
        self.variant += other.variant
        self.troubles += other.troubles

    def summary(self, batch_axis: str | None, earlier: Consistency | None = None) -> Consistency:
        """The record, together with what an earlier job established."""
        repeatable = self.disagreement is None if self.repeated else None
        invariant = not self.variant if self.compared else None
        words = [*self.variant, *self.troubles]
        if self.disagreement is not None:
            words.insert(0, f"{DISAGREE} on {where(self.disagreement)}")
        if repeatable is None and (earlier is None or earlier.repeatable is None):
            words.append("repeatability is not established: no call was repeated")
        if invariant is None and (earlier is None or earlier.batch_invariant is None):
            words.append(f"batch invariance is not established: {_no_batch(batch_axis)}")
        if earlier is not None:
            repeatable = _both(repeatable, earlier.repeatable)
            invariant = _both(invariant, earlier.batch_invariant)
            words += [earlier.detail] if earlier.detail else []
        return Consistency(
            repeatable=repeatable,
            batch_invariant=invariant,
            detail="; ".join(dict.fromkeys(words)),
        )


def _both(first: bool | None, second: bool | None) -> bool | None:
    known = [x for x in (first, second) if x is not None]
    return all(known) if known else None


def _no_batch(batch_axis: str | None) -> str:
    if batch_axis is None:
        return "no axis leads every output and every tensor that depends on it"
    return f"no workload that was called again has several {batch_axis!r}"


_FEWEST_MORE = 3
"""The smallest of the workloads that are called again is called this many more times, or up to twice as many."""


@dataclass(frozen=True)
class Again:
    """One further call: the same workload, or its first rows."""

    first: Prepared
    prepared: Prepared
    smaller: bool


def called_again(bench: Bench, workloads: Sequence[WorkloadSpec]) -> frozenset[str]:
    """The workloads of a set to call again: large, since that is where races show, but not too large to do twice."""
    most = _MOST_ELEMENTS_SIMULATED if bench.simulated else _MOST_ELEMENTS
    fit = [w for w in workloads if bench.is_checked(w) and produces(bench.spec, w)]
    fit.sort(key=lambda w: total_elements(bench.spec, w), reverse=True)
    small = [w for w in fit if total_elements(bench.spec, w) <= most]
    chosen = small[:REPEATED] or fit[-1:]
    chosen += [w for w in small if w.smaller and w not in chosen][: 0 if _any_batch(chosen) else 1]
    return frozenset(w.uuid for w in chosen)


def _any_batch(workloads: Sequence[WorkloadSpec]) -> bool:
    return any(w.smaller for w in workloads)


def further_calls(bench: Bench, batch: Sequence[Prepared], chosen: frozenset[str]) -> list[Again]:
    """The further calls for the chosen ones of a batch, repeats first; the caller closes their memory.

    Raises:
        MachineFault: memory is exhausted.
    """
    firsts = [p for p in batch if p.checked and p.workload.uuid in chosen]
    repeats = [*firsts]
    if firsts:  # a number that nobody can count on
        smallest = min(firsts, key=lambda p: p.layout.size)
        repeats += [smallest] * (_FEWEST_MORE + secrets.randbelow(_FEWEST_MORE))
    calls = [Again(p, bench.again(p), smaller=False) for p in repeats]
    return calls + [
        Again(p, bench.again(p, smaller), smaller=True)
        for p in firsts
        for smaller in p.workload.smaller
    ]


def label(workload: WorkloadSpec) -> str:
    """How a workload is called in findings: a hidden one by its kind only."""
    return f"a hidden workload ({workload.kind})" if workload.hidden else workload.uuid


def where(failure: Incorrect) -> str:
    """The workload of a failure, a hidden one by its kind only."""
    return f"a hidden workload ({failure.hidden})" if failure.hidden else failure.workload


def compare(
    bench: Bench, again: Again, before: np.ndarray, after: np.ndarray, found: Observed
) -> None:
    """Compares the outputs of a further call with the first one's: all of them, or the rows that both have."""
    if again.smaller:
        found.compared += 1
    else:
        found.repeated += 1
    for output in bench.spec.outputs:
        old, new = again.first.layout.carrier(output), again.prepared.layout.carrier(output)
        first = before[old.offset : old.offset + new.size]
        second = after[new.offset : new.offset + new.size]
        if np.array_equal(first, second):
            continue
        workload = again.first.workload
        if again.smaller:
            rows = (
                ""
                if workload.hidden
                else f" with {again.prepared.workload.axes[str(bench.spec.batch_axis)]} rows"
            )
            found.variant.append(
                f"{output.name!r} of {label(workload)} differs in a smaller batch{rows}"
            )
            return
        if found.disagreement is None:
            shape = shape_of(output, workload.axes)
            changed = (first != second).reshape(-1, dtype_bytes(output.dtype)).any(axis=1)
            place = int(changed.argmax())
            found.disagreement = Incorrect(
                device="",
                workload=workload.uuid,
                hidden=workload.kind if workload.hidden else "",
                axes=dict(workload.axes),
                output=output.name,
                index=tuple(int(i) for i in np.unravel_index(place, shape)),
                expected=text_of(values_of(first, output, shape).reshape(-1)[place]),
                got=text_of(values_of(second, output, shape).reshape(-1)[place]),
                rule=f"{DISAGREE}; 'expected' is the first call's value",
                mismatches=int(np.count_nonzero(changed)),
                elements=changed.size,
            )
        return


def floating_atomics(mix: Mapping[str, Mapping[str, int]]) -> str | None:
    """The first atomic on floating-point numbers in an instruction mix, as `opcode in kernel`; None if there is none."""
    for kernel, opcodes in mix.items():
        for opcode in opcodes:
            base, *modifiers = opcode.split(".")
            floating = base in _ATOMICS and any(m.startswith(_FLOATING) for m in modifiers)
            if floating or base in _REDUCING_COPIES:
                return f"{opcode} in {kernel}"
    return None


@dataclass(frozen=True)
class Steadiness:
    """What further calls of baseline and candidate mean together."""

    candidate: Consistency
    baseline: Consistency
    findings: tuple[str, ...] = ()
    failure: Incorrect | None = None


def weigh(
    found: Observed,
    records: tuple[Consistency, Consistency],
    mix: Mapping[str, Mapping[str, int]],
    *,
    alone: bool,
) -> Steadiness:
    """Judges a candidate's consistency: calls that disagree without a reason reject it, what it loses is a finding.

    Args:
        found: what the candidate's further calls showed.
        records: the candidate's and the baseline's summary.
        mix: the candidate's instruction mix, empty where there is none.
        alone: whether it is the baseline itself, which is never rejected for that.
    """
    candidate, baseline = records
    findings: list[str] = []
    if candidate.batch_invariant is False and baseline.batch_invariant and not alone:
        findings.append(f"not batch invariant, as the baseline is: {'; '.join(found.variant)}")
    failure = found.disagreement
    if failure is None:
        return Steadiness(candidate, baseline, tuple(findings))
    words = f"{DISAGREE} on {where(failure)}"
    atomics = floating_atomics(mix)
    if atomics:
        words += f": atomics on floating-point numbers ({atomics}) come in no fixed order"
    elif not mix:
        words += "; whether atomics explain it is not established without an instruction mix"
    elif baseline.repeatable is False:
        words += ", without atomics that explain it; the baseline's do so too"
    else:
        return Steadiness(candidate, baseline, tuple(findings), failure)
    if baseline.repeatable and not alone:
        words += "; the baseline is repeatable"
    return Steadiness(candidate, baseline, (*findings, words))
