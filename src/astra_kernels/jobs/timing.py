"""The time gate on a real GPU: runs timing children, verifies what they timed, and judges the clocks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from astra_kernels.devices.neighbours import alone_on, other_processes
from astra_kernels.jobs.claims import TimingReport, timing_report
from astra_kernels.jobs.correctness import Accuracies, judge_result, quick_digest
from astra_kernels.jobs.memory import mapped
from astra_kernels.jobs.prepare import Bench, Prepared
from astra_kernels.jobs.spec import WorkloadSpec
from astra_kernels.jobs.statistics import (
    Rounds,
    geometric_mean,
    geometric_mean_of,
    ratio_of,
    spread,
)
from astra_kernels.jobs.supervise import Ending, Setting, run_child
from astra_kernels.jobs.wire import Event, Program, Request, TimingPlan
from astra_kernels.records.evaluation import (
    Crashed,
    Evaluation,
    Measured,
    NotEstablished,
    Quarantined,
    Rejected,
    TimedOut,
    Timing,
)

_CLOCK_FACTOR, _CLOCK_SLACK_S = 1.25, 0.005
_SECONDS_PER_WORKLOAD = 2.5
BASELINE, CANDIDATE = 0, 1

Clock = dict[str, float]
"""Seconds of each program's long replay by the supervisor's clock."""
Reports = dict[str, list[tuple[TimingReport, Clock]]]


@dataclass(frozen=True, kw_only=True)
class Contest:
    """The two programs of a timing, and what the correctness gate knows of the candidate."""

    programs: tuple[Program, Program]
    cuda_runtime: str
    baseline_accuracy: dict[str, Accuracies]
    digests: dict[str, bytes]
    """Of the candidate's outputs in the correctness gate, by workload."""


@dataclass
class Timed:
    """What the timing gate found."""

    timings: dict[str, Timing] = field(default_factory=dict)
    rounds: dict[str, list[Rounds]] = field(default_factory=dict)
    kernels: dict[str, int] = field(default_factory=dict)
    """Kernels that one call of the candidate launches."""
    facts: dict[str, Any] = field(default_factory=dict)
    sandbox: str = ""

    def geomean(self) -> Timing | None:
        """Geometric mean over the timed workloads; only if every one was measured."""
        if not self.timings:
            return None
        measured = [t for t in self.timings.values() if isinstance(t, Measured)]
        if len(measured) < len(self.timings):
            missing = len(self.timings) - len(measured)
            return NotEstablished(reason=f"{missing} of {len(self.timings)} workloads have no time")
        ratio = geometric_mean_of(list(self.rounds.values()))
        return Measured(
            baseline_us=geometric_mean([m.baseline_us for m in measured]),
            candidate_us=geometric_mean([m.candidate_us for m in measured]),
            ratio=ratio.median,
            ratio_low=ratio.low,
            ratio_high=ratio.high,
            rounds=min(m.rounds for m in measured),
            baseline_spread=max(m.baseline_spread for m in measured),
            candidate_spread=max(m.candidate_spread for m in measured),
        )


def measure(
    bench: Bench, contest: Contest, workloads: Sequence[WorkloadSpec]
) -> tuple[Timed, Evaluation | None]:
    """Times both programs on every workload.

    Raises:
        MachineFault: the machine failed.
    """
    timed = Timed()
    ordinal = int(bench.spec.device.partition(":")[2])
    with alone_on(bench.spec.device):
        others = other_processes(ordinal)
        if others:
            reason = f"other processes compute on the GPU: {', '.join(others)[:200]}"
            timed.timings = {w.uuid: NotEstablished(reason=reason) for w in workloads}
            return timed, None
        reports: Reports = {w.uuid: [] for w in workloads}
        for _ in range(bench.spec.limits.processes):
            for batch in bench.batches(workloads):
                failure = _measure_batch(bench, contest, batch, (timed, reports))
                if failure is not None:
                    return timed, failure
    for workload in workloads:
        failure = conclude(workload, reports[workload.uuid], timed)
        if failure is not None:
            return timed, failure
    return timed, None


def _measure_batch(
    bench: Bench,
    contest: Contest,
    batch: Sequence[WorkloadSpec],
    found: tuple[Timed, Reports],
) -> Evaluation | None:
    timed, reports = found
    limits = bench.spec.limits
    prepared = [bench.prepared(w) for w in batch]
    verdicts: list[Evaluation] = []
    marks: dict[str, float] = {}
    with _results(prepared) as results:
        request = Request(
            task="time",
            device=bench.spec.device,
            cuda_runtime=contest.cuda_runtime,
            programs=contest.programs,
            calls=tuple(p.call(fds) for p, fds in zip(prepared, results, strict=True)),
            timing=TimingPlan(
                min_rounds=limits.min_rounds,
                max_rounds=limits.max_rounds,
                target_interval=limits.target_interval,
                seconds=_SECONDS_PER_WORKLOAD,
            ),
        )

        def heard(event: Event, arrived: float) -> bool:
            if event.kind == "ready" or event.detail == "ceilings":
                timed.facts.update(event.data)
            elif event.kind == "mark":
                marks[event.detail] = arrived
            elif event.kind == "done":
                report = timing_report(event.data)
                reports[batch[event.index].uuid].append((report, _between(marks)))
                marks.clear()
                verdict = _refusal(report) or _verify(
                    bench, contest, prepared[event.index], results[event.index]
                )
                verdicts.extend([] if verdict is None else [verdict])
                return verdict is None
            return True

        finished = run_child(request, Setting(limits.time_s), heard)
    timed.sandbox = finished.sandbox
    if verdicts:
        return verdicts[0]
    return None if finished.ending is None else _ended(finished.ending, batch, limits.time_s)


@contextlib.contextmanager
def _results(prepared: Sequence[Prepared]) -> Iterator[list[tuple[int, int]]]:
    results = [(p.new_result(), p.new_result()) for p in prepared]
    try:
        yield results
    finally:
        for pair in results:
            for descriptor in pair:
                os.close(descriptor)


def _ended(ending: Ending, batch: Sequence[WorkloadSpec], limit_s: float) -> Evaluation:
    workload = batch[ending.index].uuid if 0 <= ending.index < len(batch) else None
    if ending.kind == "tampered":
        return Rejected(device="", rule="tampered", detail=ending.detail)
    if ending.kind == "timed_out":
        return TimedOut(
            device="", stage="time", limit_s=limit_s, detail=ending.detail, workload=workload
        )
    return Crashed(device="", stage="time", detail=ending.detail, workload=workload)


def _between(marks: dict[str, float]) -> Clock:
    """Seconds between the marks of each program's long replay, by the supervisor's clock."""
    return {
        program: marks[f"{program} ends"] - marks[f"{program} begins"]
        for program in ("0", "1")
        if f"{program} ends" in marks and f"{program} begins" in marks
    }


def _refusal(report: TimingReport) -> Rejected | None:
    """A candidate that cannot be captured although the baseline can."""
    refused = report.refused
    if refused[CANDIDATE] and not refused[BASELINE]:
        return Rejected(device="", rule="capture", detail=refused[CANDIDATE])
    return None


def _verify(
    bench: Bench, contest: Contest, prepared: Prepared, results: tuple[int, int]
) -> Evaluation | None:
    """Judges the outputs of a timed call of the candidate; equal to the checked ones is enough."""
    result = mapped(results[CANDIDATE])
    known = contest.digests.get(prepared.workload.uuid)
    if known is not None and quick_digest(prepared, result) == known:
        return None
    return judge_result(bench, prepared, result, contest.baseline_accuracy)[1]


def conclude(
    workload: WorkloadSpec, reports: Sequence[tuple[TimingReport, Clock]], timed: Timed
) -> Evaluation | None:
    """Turns the raw rounds of all processes into a timing, or doubts them."""
    if not reports:
        detail = "the timing process ended without a result"
        return Crashed(device="", stage="time", detail=detail, workload=workload.uuid)
    refused = [next((r.refused[p] for r, _ in reports if r.refused[p]), "") for p in (0, 1)]
    rounds: list[Rounds] = [r.rounds for r, _ in reports]
    times = np.concatenate([np.asarray(r) for r in rounds])
    baseline_us, candidate_us = (float(t) for t in np.median(times, axis=0))
    if refused[BASELINE]:
        timed.timings[workload.uuid] = NotEstablished(
            reason=f"the baseline cannot be captured ({refused[BASELINE]}); one call with its launch "
            f"takes {baseline_us:.3g} us, the candidate's {candidate_us:.3g} us"
        )
        return None
    doubt = _doubt(workload, reports, candidate_us, timed.facts)
    if doubt is not None:
        return Quarantined(device="", reason=doubt, workload=workload.uuid)
    ratio = ratio_of(rounds)
    timed.kernels[workload.uuid] = reports[0][0].kernels
    timed.rounds[workload.uuid] = rounds
    timed.timings[workload.uuid] = Measured(
        baseline_us=baseline_us,
        candidate_us=candidate_us,
        ratio=ratio.median,
        ratio_low=ratio.low,
        ratio_high=ratio.high,
        rounds=len(times),
        baseline_spread=spread(times[:, BASELINE].tolist()),
        candidate_spread=spread(times[:, CANDIDATE].tolist()),
    )
    return None


def _doubt(
    workload: WorkloadSpec,
    reports: Sequence[tuple[TimingReport, Clock]],
    candidate_us: float,
    facts: dict[str, Any],
) -> str | None:
    floor_us = workload.minimum_bytes / (facts["bandwidth_gb_s"] * 1e3)
    if candidate_us < floor_us:
        return (
            f"{candidate_us:.3g} us is below the {floor_us:.3g} us that {workload.minimum_bytes} bytes "
            f"take at the datasheet's {facts['bandwidth_gb_s']:.0f} GB/s"
        )
    for report, clock in reports:
        events_s = report.long_us[str(CANDIDATE)] * 1e-6
        clock_s = clock.get(str(CANDIDATE), float("inf"))
        if not events_s / _CLOCK_FACTOR < clock_s < events_s * _CLOCK_FACTOR + _CLOCK_SLACK_S:
            return (
                f"a long replay took {events_s * 1e3:.3g} ms by CUDA events, "
                f"{clock_s * 1e3:.3g} ms by the supervisor's clock"
            )
    return None
