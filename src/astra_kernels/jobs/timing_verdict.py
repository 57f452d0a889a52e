"""From raw rounds to times and ratios with intervals, or to a doubt: what the time gate concludes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np

from astra_kernels.jobs.claims import ChainReport, TimingReport
from astra_kernels.jobs.spec import WorkloadSpec
from astra_kernels.jobs.statistics import (
    Rounds,
    geometric_mean,
    geometric_mean_of,
    ratio_of,
    spread,
)
from astra_kernels.jobs.timing import BASELINE, CANDIDATE, Trials
from astra_kernels.jobs.two_clocks import Clock, clocks_disagree
from astra_kernels.records.evaluation import (
    Chain,
    Crashed,
    Evaluation,
    Measured,
    NotEstablished,
    Quarantined,
    Timing,
)

_RATIO_FACTOR = 1.1
"""How far ratios from one process and from separate ones may be apart."""
_ENOUGH_ROUNDS = 0.5
"""Share of the rounds that has to be left when those under a clock held down are discarded."""


@dataclass
class Timed:
    """What the time gate found, by workload."""

    timings: dict[str, Timing] = field(default_factory=dict)
    warm: dict[str, Timing] = field(default_factory=dict)
    chains: dict[str, Chain] = field(default_factory=dict)
    rounds: dict[str, list[Rounds]] = field(default_factory=dict)
    warm_rounds: dict[str, list[Rounds]] = field(default_factory=dict)
    kernels: dict[str, int] = field(default_factory=dict)
    """Kernels that one call of the candidate launches."""
    remarks: list[str] = field(default_factory=list)

    def geomean(self, weights: Mapping[str, float] | None = None) -> Timing | None:
        """Geometric mean of the cold times, weighted if asked; only if every workload was measured."""
        return _geomean(self.timings, self.rounds, weights)

    def warm_geomean(self) -> Timing | None:
        """Geometric mean of the warm times over the workloads whose data fit in the cache."""
        return _geomean(self.warm, self.warm_rounds, None)


def conclude(seen: Trials, workloads: Sequence[WorkloadSpec]) -> tuple[Timed, Evaluation | None]:
    """Times of every workload, or the doubt that ends the job."""
    timed = Timed()
    if seen.busy:
        timed.timings = {w.uuid: NotEstablished(reason=seen.busy) for w in workloads}
        return timed, None
    for workload in workloads:
        failure = _one(seen, workload, timed)
        if failure is not None:
            return timed, failure
    if seen.clocks.reasons:
        timed.remarks.append(f"the clock was held down at times: {', '.join(seen.clocks.reasons)}")
    return timed, None


def _one(seen: Trials, workload: WorkloadSpec, timed: Timed) -> Evaluation | None:
    uuid = workload.uuid
    reports = seen.reports[uuid]
    if not reports:
        detail = "the timing process ended without a result"
        return Crashed(device="", stage="time", detail=detail, workload=uuid)
    kept, discarded = _kept(seen, [r for r, _ in reports])
    baseline_us, candidate_us = (
        float(t) for t in np.median([t for r, _ in reports for t in r.rounds], axis=0)
    )
    refused = next((r.refused[BASELINE] for r, _ in reports if r.refused[BASELINE]), "")
    if refused:
        timed.timings[uuid] = NotEstablished(
            reason=f"the baseline cannot be captured ({refused}); one call with its launch takes "
            f"{baseline_us:.3g} us, the candidate's {candidate_us:.3g} us"
        )
        return None
    doubt = _doubt(seen, workload, reports, (baseline_us, candidate_us))
    if doubt is not None:
        return Quarantined(device="", reason=doubt, workload=uuid)
    timed.kernels[uuid] = reports[0][0].kernels
    if kept is None:
        timed.timings[uuid] = NotEstablished(reason=_unsteady(seen, discarded))
        return None
    timed.rounds[uuid] = kept
    timed.timings[uuid] = measured(kept, discarded)
    warm = [_pairs(r.warm) for r, _ in reports if r.warm]
    if warm:
        timed.warm_rounds[uuid] = warm
        timed.warm[uuid] = replace(measured(warm), cache="warm")
    chains = [r.chain for r, _ in reports if r.chain is not None]
    if chains:
        timed.chains[uuid] = chain_of(chains)
    return None


def measured(processes: Sequence[Rounds], discarded: int = 0) -> Measured:
    """The times and their ratio from the rounds of some processes."""
    times = np.concatenate([np.asarray(rounds) for rounds in processes])
    ratio = ratio_of(processes)
    return Measured(
        baseline_us=float(np.median(times[:, BASELINE])),
        candidate_us=float(np.median(times[:, CANDIDATE])),
        ratio=ratio.median,
        ratio_low=ratio.low,
        ratio_high=ratio.high,
        rounds=len(times),
        baseline_spread=spread(times[:, BASELINE].tolist()),
        candidate_spread=spread(times[:, CANDIDATE].tolist()),
        discarded=discarded,
    )


def chain_of(reports: Sequence[ChainReport]) -> Chain:
    """Times of a chain of producer, call and consumer, and the ratio of whole chains."""
    launched = [[(r[0], r[1]) for r in report.rounds] for report in reports]
    ratio = ratio_of(launched)
    columns = np.median([r for report in reports for r in report.rounds], axis=0)
    return Chain(
        baseline_us=float(columns[0]),
        candidate_us=float(columns[1]),
        ratio=ratio.median,
        ratio_low=ratio.low,
        ratio_high=ratio.high,
        baseline_waiting_us=float(columns[2]),
        candidate_waiting_us=float(columns[3]),
    )


def _pairs(rounds: Sequence[tuple[float, ...]]) -> Rounds:
    return [(r[BASELINE], r[CANDIDATE]) for r in rounds]


def _kept(seen: Trials, reports: Sequence[TimingReport]) -> tuple[list[Rounds] | None, int]:
    """Rounds at a steady clock, by process, and how many others there were; None when too few are left."""
    kept: list[Rounds] = []
    total = 0
    for report in reports:
        good = [
            (r[BASELINE], r[CANDIDATE])
            for r, at in zip(report.rounds, report.ended, strict=True)
            if not seen.clocks.spoiled(at)
        ]
        total += len(report.rounds)
        kept += [good] if good else []
    left = sum(len(rounds) for rounds in kept)
    enough = len(kept) == len(reports) and left >= _ENOUGH_ROUNDS * total
    return kept if enough else None, total - left


def _unsteady(seen: Trials, discarded: int) -> str:
    why = ", ".join(seen.clocks.reasons) or "it moved by more than 3 %"
    return f"the clock was not steady in {discarded} rounds: {why}"


def _doubt(
    seen: Trials,
    workload: WorkloadSpec,
    reports: Sequence[tuple[TimingReport, Clock]],
    times_us: tuple[float, float],
) -> str | None:
    """Why the times cannot be believed: physics, another clock, or other processes say otherwise."""
    baseline_us, candidate_us = times_us
    bandwidth = seen.facts["bandwidth_gb_s"]
    floor_us = workload.minimum_bytes / (bandwidth * 1e3)
    if candidate_us < floor_us:
        return (
            f"{candidate_us:.3g} us is below the {floor_us:.3g} us that {workload.minimum_bytes} bytes "
            f"take at the datasheet's {bandwidth:.0f} GB/s"
        )
    for report, clock in reports:
        found = clocks_disagree(report.long_us, clock)
        if found is not None:
            return found
    alone = [median(r[0] for r in report.rounds) for report in seen.alone.get(workload.uuid, [])]
    if len(alone) == 2:
        apart, together = alone[0] / alone[1], baseline_us / candidate_us
        if not 1 / _RATIO_FACTOR < apart / together < _RATIO_FACTOR:
            return (
                f"side by side the ratio is {together:.3f}, in separate processes {apart:.3f}: one program "
                "changes the other's time"
            )
    return None


def _geomean(
    timings: Mapping[str, Timing],
    rounds: Mapping[str, list[Rounds]],
    weights: Mapping[str, float] | None,
) -> Timing | None:
    if not timings:
        return None
    found = {u: t for u, t in timings.items() if isinstance(t, Measured)}
    if len(found) < len(timings):
        missing = len(timings) - len(found)
        return NotEstablished(reason=f"{missing} of {len(timings)} workloads have no time")
    shares = [1.0 if weights is None else weights[uuid] for uuid in found]
    ratio = geometric_mean_of([rounds[uuid] for uuid in found], shares)
    values = list(found.values())
    return Measured(
        baseline_us=geometric_mean([m.baseline_us for m in values], shares),
        candidate_us=geometric_mean([m.candidate_us for m in values], shares),
        ratio=ratio.median,
        ratio_low=ratio.low,
        ratio_high=ratio.high,
        rounds=min(m.rounds for m in values),
        baseline_spread=max(m.baseline_spread for m in values),
        candidate_spread=max(m.candidate_spread for m in values),
        discarded=sum(m.discarded for m in values),
    )
