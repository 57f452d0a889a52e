"""The time gate on a real GPU: runs timing children, and verifies what they timed."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from astra_kernels.devices.clocks import ClockRecord, ClockWatch
from astra_kernels.devices.neighbours import other_processes
from astra_kernels.jobs.claims import TimingReport, timing_report
from astra_kernels.jobs.correctness import Accuracies
from astra_kernels.jobs.prepare import Bench, Prepared
from astra_kernels.jobs.spec import WorkloadSpec
from astra_kernels.jobs.supervise import Ending, Setting, run_child
from astra_kernels.jobs.timed_outputs import BaselineAgain, TimedCall, verify_timed
from astra_kernels.jobs.two_clocks import (
    LONG_REPLAY_US,
    LONGER_REPLAY_US,
    Clock,
    between,
    clocks_disagree,
)
from astra_kernels.jobs.wire import Event, Program, Request, TimingPlan
from astra_kernels.records.evaluation import Crashed, Evaluation, Rejected, TimedOut

_SECONDS_PER_WORKLOAD = 2.5
ROUNDS_FILE = "rounds.json"
BASELINE, CANDIDATE = 0, 1


@dataclass(frozen=True, kw_only=True)
class Contest:
    """The two programs of a timing, and what the correctness gate knows of the candidate."""

    programs: tuple[Program, Program]
    cuda_runtime: str
    baseline_accuracy: Mapping[str, Accuracies]
    digests: Mapping[str, bytes]
    """Of the candidate's outputs in the correctness gate, by workload."""


@dataclass
class Trials:
    """What timing children reported, by workload, and what was seen of the machine meanwhile."""

    reports: dict[str, list[tuple[TimingReport, Clock]]] = field(default_factory=dict)
    """Of both programs side by side, one report per process."""
    alone: dict[str, list[TimingReport]] = field(default_factory=dict)
    """Of each program in a process of its own, the baseline's first."""
    clocks: ClockRecord = field(default_factory=ClockRecord)
    facts: dict[str, Any] = field(default_factory=dict)
    busy: str = ""
    """Why nothing was timed: other work on the GPU."""


def observe(
    bench: Bench, contest: Contest, workloads: Sequence[WorkloadSpec]
) -> tuple[Trials, Evaluation | None]:
    """Times both programs on every workload, in as many processes as the job's limits say.

    Raises:
        MachineFault: the machine failed.
    """
    seen = Trials(reports={w.uuid: [] for w in workloads})
    ordinal = int(bench.spec.device.partition(":")[2])
    processes = bench.spec.limits.processes
    looks = {w.uuid: secrets.randbelow(processes) for w in workloads}
    with bench.device_alone():
        others = other_processes(ordinal)
        if others:
            seen.busy = f"other processes compute on the GPU: {', '.join(others)[:200]}"
            return seen, None
        with ClockWatch(ordinal) as seen.clocks:
            for process in range(processes):
                chosen = frozenset(u for u, p in looks.items() if p == process)
                for batch in bench.batches(workloads):
                    failure = _side_by_side(bench, contest, batch, chosen, seen)
                    if failure is not None:
                        return seen, failure
            if bench.spec.limits.alone:
                for program in contest.programs:
                    for batch in bench.batches(workloads):
                        failure = _alone(bench, contest, program, batch, seen)
                        if failure is not None:
                            return seen, failure
    return seen, None


def _side_by_side(
    bench: Bench,
    contest: Contest,
    batch: Sequence[WorkloadSpec],
    looks: frozenset[str],
    seen: Trials,
) -> Evaluation | None:
    """One process that times both programs; where two clocks disagree, another one with longer replays."""
    failure = _Side(bench, contest, batch, looks).run(seen)
    for workload in batch if failure is None else ():
        report, clock = seen.reports[workload.uuid][-1]
        if not report.long_us or clocks_disagree(report.long_us, clock) is None:
            continue
        again = Trials(reports={workload.uuid: []})
        plan = replace(
            _plan(bench), max_rounds=bench.spec.limits.min_rounds, long_replay_us=LONGER_REPLAY_US
        )
        failure = _Side(bench, contest, [workload], frozenset(), plan).run(again)
        if failure is not None:
            return failure
        longer, clock = again.reports[workload.uuid][0]
        seen.reports[workload.uuid][-1] = replace(report, long_us=longer.long_us), clock
    return failure


def write_rounds(job_dir: Path, seen: Trials) -> None:
    """Writes `rounds.json`: the raw times of every round, for whoever wants other statistics.

    By workload a list of processes, by process a list of rounds, by round the microseconds of a call of the
    baseline and of the candidate.
    """
    document = {
        "cold": {u: [r.rounds for r, _ in reports] for u, reports in seen.reports.items()},
        "warm": {u: [r.warm for r, _ in reports] for u, reports in seen.reports.items()},
        "alone": {u: [r.rounds for r in reports] for u, reports in seen.alone.items()},
        "sm_mhz": [sample.sm_mhz for sample in seen.clocks.samples],
    }
    (job_dir / ROUNDS_FILE).write_text(json.dumps(document), encoding="utf-8")


class _Side:
    """One process that times both programs side by side."""

    def __init__(
        self,
        bench: Bench,
        contest: Contest,
        batch: Sequence[WorkloadSpec],
        looks: frozenset[str],
        plan: TimingPlan | None = None,
    ) -> None:
        self._bench, self._contest, self._batch = bench, contest, batch
        self._plan = plan or _plan(bench)
        self._looks = looks
        """Workloads whose outputs are judged: each in one process, and no process knows which."""
        self._prepared = [bench.prepared(w) for w in batch]
        self._marks: dict[str, float] = {}
        self._verdicts: list[Evaluation] = []

    def run(self, seen: Trials) -> Evaluation | None:
        """Runs it to its end."""
        with _results(self._prepared, 3) as results:
            request = _request(
                self._bench, self._contest, self._contest.programs, self._prepared, results
            )
            request = replace(request, timing=self._plan)

            def heard(event: Event, arrived: float) -> bool:
                return self._hear(event, arrived, seen)

            limit_s = self._bench.spec.limits.time_s
            finished = run_child(request, Setting(limit_s), heard)
            if self._verdicts:
                return self._verdicts[0]
            if finished.ending is not None:
                return _ended(finished.ending, self._batch, limit_s)
            return self._verified(seen, results)

    def _hear(self, event: Event, arrived: float, seen: Trials) -> bool:
        if event.kind == "ready" or event.detail == "ceilings":
            seen.facts.update(event.data)
        elif event.kind == "mark":
            self._marks[event.detail] = arrived
        elif event.kind == "failed":
            self._verdicts.append(_failed(event, self._batch))
            return False
        elif event.kind == "done":
            report = timing_report(event.data, len(self._contest.programs))
            uuid = self._batch[event.index].uuid
            seen.reports[uuid].append((report, between(self._marks)))
            self._marks.clear()
            verdict = _refusal(report)
            self._verdicts += [] if verdict is None else [verdict]
            return verdict is None
        return True

    def _verified(self, seen: Trials, results: Sequence[tuple[int, ...]]) -> Evaluation | None:
        """Judges the outputs, when the child has ended: its marks are to find this process at leisure."""
        for workload, prepared, own in zip(self._batch, self._prepared, results, strict=True):
            report = seen.reports[workload.uuid][-1][0]
            verdict = self._verify(report, prepared, own)
            if verdict is not None:
                return verdict
        return None

    def _verify(
        self, report: TimingReport, prepared: Prepared, results: tuple[int, ...]
    ) -> Evaluation | None:
        """Judges what the candidate left in the sets that chance chose."""
        known = self._contest.baseline_accuracy, self._contest.digests
        baseline = BaselineAgain(
            program=self._contest.programs[BASELINE],
            cuda_runtime=self._contest.cuda_runtime,
            deadline_s=self._bench.spec.limits.correctness_s,
        )
        if report.chain is not None:
            call = TimedCall(report.chain.turn, results[-1])
            wrong = verify_timed(self._bench, prepared, call, known, baseline)
            if wrong is not None:
                return _too_early(wrong)
        if prepared.workload.uuid not in self._looks or not report.turns:
            return None
        call = TimedCall(report.turns[CANDIDATE], results[CANDIDATE])
        return verify_timed(self._bench, prepared, call, known, baseline)


def _alone(
    bench: Bench,
    contest: Contest,
    program: Program,
    batch: Sequence[WorkloadSpec],
    seen: Trials,
) -> Evaluation | None:
    """One process that times one program."""
    prepared = [bench.prepared(w) for w in batch]
    verdicts: list[Evaluation] = []

    def heard(event: Event, arrived: float) -> bool:
        del arrived
        if event.kind == "failed":
            verdicts.append(_failed(event, batch))
            return False
        if event.kind == "done":
            report = timing_report(event.data, 1)
            seen.alone.setdefault(batch[event.index].uuid, []).append(report)
        return True

    limit_s = bench.spec.limits.time_s
    with _results(prepared, 2) as results:
        request = _request(bench, contest, (program,), prepared, results)
        finished = run_child(request, Setting(limit_s), heard)
    if verdicts:
        return verdicts[0]
    return None if finished.ending is None else _ended(finished.ending, batch, limit_s)


def _request(
    bench: Bench,
    contest: Contest,
    programs: tuple[Program, ...],
    prepared: Sequence[Prepared],
    results: Sequence[tuple[int, ...]],
) -> Request:
    return Request(
        task="time",
        device=bench.spec.device,
        cuda_runtime=contest.cuda_runtime,
        programs=programs,
        calls=tuple(p.call(fds) for p, fds in zip(prepared, results, strict=True)),
        timing=replace(_plan(bench), warm=False),
    )


def _plan(bench: Bench) -> TimingPlan:
    limits = bench.spec.limits
    return TimingPlan(
        min_rounds=limits.min_rounds,
        max_rounds=limits.max_rounds,
        target_interval=limits.target_interval,
        seconds=_SECONDS_PER_WORKLOAD,
        long_replay_us=LONG_REPLAY_US,
        warm=limits.warm,
    )


@contextlib.contextmanager
def _results(prepared: Sequence[Prepared], each: int) -> Iterator[list[tuple[int, ...]]]:
    results = [tuple(p.new_result() for _ in range(each)) for p in prepared]
    try:
        yield results
    finally:
        for descriptors in results:
            for descriptor in descriptors:
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


def _failed(event: Event, batch: Sequence[WorkloadSpec]) -> Evaluation:
    """What a child could not do: load a program, or finish a call."""
    if not 0 <= event.index < len(batch):
        return Rejected(device="", rule="load", detail=event.detail)
    uuid = batch[event.index].uuid
    return Crashed(device="", stage="time", detail=event.detail, workload=uuid)


def _too_early(wrong: Evaluation) -> Evaluation:
    """A call that is right alone and wrong behind a kernel that writes its inputs late."""
    detail = getattr(wrong, "rule", "") or getattr(wrong, "detail", "")
    return Rejected(
        device="",
        rule="launch_dependency",
        detail="after a producer that lets it start early (programmatic dependent launch) the outputs are "
        f"wrong: the kernel does not wait before it reads; {detail}",
    )


def _refusal(report: TimingReport) -> Rejected | None:
    """A candidate that cannot be captured although the baseline can."""
    refused = report.refused
    if refused[CANDIDATE] and not refused[BASELINE]:
        return Rejected(device="", rule="capture", detail=refused[CANDIDATE])
    return None
