"""The time gate: modelled on a simulated device, measured on a real one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from astra_kernels.jobs.modelled import (
    Launches,
    modelled_call,
    modelled_geomean,
    modelled_timing,
    simulated_profiles,
)
from astra_kernels.jobs.plausible import doubt, work_left_out
from astra_kernels.jobs.prepare import Bench
from astra_kernels.jobs.spec import WorkloadSpec
from astra_kernels.jobs.timing import Contest, Trials, observe, write_rounds
from astra_kernels.jobs.timing_verdict import conclude
from astra_kernels.records.evaluation import (
    Chain,
    Evaluation,
    KernelProfile,
    NotEstablished,
    Quarantined,
    Timing,
)


@dataclass
class TimeGate:
    """Times and profiles by workload, whatever the device."""

    timings: dict[str, Timing] = field(default_factory=dict)
    profiles: dict[str, tuple[KernelProfile, ...]] = field(default_factory=dict)
    warm: dict[str, Timing] = field(default_factory=dict)
    chains: dict[str, Chain] = field(default_factory=dict)
    geomean: Timing | None = None
    weighted_geomean: Timing | None = None
    warm_geomean: Timing | None = None
    kernels: dict[str, int] = field(default_factory=dict)
    """Kernels that one call of the candidate launches."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What only timing shows of the machine."""
    remarks: list[str] = field(default_factory=list)


def modelled_gate(
    bench: Bench,
    workloads: Sequence[WorkloadSpec],
    launches_of: Mapping[str, Launches],
    baseline_us_of: Mapping[str, float],
    judged: frozenset[str] = frozenset(),
) -> TimeGate | Evaluation:
    """Times and profiles of a simulated device: everything was counted already.

    Args:
        bench: the job's workloads.
        workloads: the public ones.
        launches_of: what the candidate launched on each.
        baseline_us_of: the baseline's modelled times.
        judged: kernels that ran on hidden workloads, whose outputs were judged.
    """
    gate = TimeGate()
    known = judged | {
        launch.kernel
        for w in workloads
        if bench.is_checked(w)
        for launch in launches_of.get(w.uuid, ())
    }
    for workload in workloads:
        launches = launches_of.get(workload.uuid, ())
        gate.profiles[workload.uuid] = simulated_profiles(launches)
        baseline_us = baseline_us_of.get(workload.uuid)
        reason = None
        if bench.spec.candidate is not None:
            reason = doubt(bench.spec, workload, baseline_us, launches)
            if reason is None and not bench.is_checked(workload):
                reason = work_left_out(bench.spec, workload, baseline_us, launches)
        if reason is not None:
            return Quarantined(device="", reason=reason, workload=workload.uuid)
        unseen = next((x.kernel for x in launches if x.kernel not in known), None)
        if workload.timed and unseen is not None:
            reason = f"{unseen} ran on no workload that was checked"
            gate.timings[workload.uuid] = NotEstablished(reason=reason)
        elif workload.timed:
            gate.timings[workload.uuid] = modelled_timing(baseline_us, modelled_call(launches))
    gate.geomean = modelled_geomean(list(gate.timings.values()))
    return gate


def measured_gate(
    bench: Bench, job_dir: Path, contest: Contest, workloads: Sequence[WorkloadSpec]
) -> TimeGate | Evaluation:
    """Times of a real device; the raw rounds go to the job directory.

    Raises:
        MachineFault: the machine failed.
    """
    trials, failure = observe(bench, contest, workloads)
    write_rounds(job_dir, trials)
    if failure is not None:
        return failure
    timed, failure = conclude(trials, workloads)
    if failure is not None:
        return failure
    weights = {w.uuid: w.weight or 1.0 for w in workloads}
    weighted = any(w.weight is not None for w in workloads)
    return TimeGate(
        timings=timed.timings,
        warm=timed.warm,
        chains=timed.chains,
        geomean=timed.geomean(),
        weighted_geomean=timed.geomean(weights) if weighted else None,
        warm_geomean=timed.warm_geomean(),
        kernels=timed.kernels,
        facts={**trials.facts, **_clock_facts(trials)},
        remarks=timed.remarks,
    )


def _clock_facts(trials: Trials) -> dict[str, str]:
    clocks = [s.sm_mhz for s in trials.clocks.samples]
    if clocks:
        return {"timed_at_mhz": f"{min(clocks)} to {max(clocks)}"}
    unavailable = trials.clocks.unavailable
    return {"timed_at_mhz": f"unknown ({unavailable})"} if unavailable else {}
