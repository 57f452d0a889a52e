"""A decision table over counters: what limits a kernel, and the numbers that say so.

The thresholds are the rules of thumb of Nsight Compute's own guided analysis: a unit above 60 % of its peak limits the kernel;
less than one full wave of blocks leaves multiprocessors idle; below that, latency does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from astra_kernels.records.candidate import Candidate
from astra_kernels.records.evaluation import (
    KernelProfile,
    Measured,
    Modelled,
    Passed,
    WorkloadResult,
)
from astra_kernels.records.plan import Bottleneck, Diagnosis, Evidence

WAVES = "launch__waves_per_multiprocessor"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
DRAM = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
ISSUE = "smsp__issue_active.avg.pct_of_peak_sustained_active"
XU = "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active"
SECTORS_PER_LOAD = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"
REGISTERS = "launch__registers_per_thread"

_WIDE_LOAD_SECTORS = 16.0
"""Sectors of one request in which 32 lanes load 16 contiguous bytes each."""


@dataclass(frozen=True)
class Rule:
    """One line of the table: when `holds` for a profile, `bottleneck` limits it, because of `metric`."""

    bottleneck: Bottleneck
    metric: str
    meaning: str
    holds: Callable[[float], bool]


_TABLE = (
    Rule(
        "parallelism",
        WAVES,
        "less than one wave of blocks: multiprocessors idle",
        lambda v: v < 1.0,
    ),
    Rule("memory_bandwidth", DRAM, "device memory is near its peak", lambda v: v >= 60.0),
    Rule(
        "special_functions", XU, "the special function unit is near its peak", lambda v: v >= 60.0
    ),
    Rule("instruction_issue", ISSUE, "the issue slots are nearly full", lambda v: v >= 60.0),
    Rule("occupancy", OCCUPANCY, "few warps are resident to hide latency", lambda v: v < 40.0),
    Rule(
        "memory_latency",
        SECTORS_PER_LOAD,
        "loads are narrower than 16 bytes a thread",
        lambda v: v < _WIDE_LOAD_SECTORS,
    ),
)


class RuleProfiler:
    """Applies the table to every timed workload; the bottleneck of most of them wins."""

    def diagnose(self, candidate: Candidate, evaluation: Passed) -> Diagnosis:
        """A diagnosis that cites counters of the slowest workload with that bottleneck."""
        limited: Counter[Bottleneck] = Counter()
        worst: dict[Bottleneck, tuple[float, WorkloadResult, Evidence]] = {}
        for workload in evaluation.workloads:
            time_us = _time_us(workload)
            for profile in workload.profiles if time_us else ():
                bottleneck, evidence = _judge(profile)
                limited[bottleneck] += 1
                if bottleneck not in worst or time_us > worst[bottleneck][0]:
                    worst[bottleneck] = (time_us, workload, evidence)
        if not limited:
            return _without_counters(candidate, evaluation)
        bottleneck = limited.most_common(1)[0][0]
        _, workload, evidence = worst[bottleneck]
        more = _supporting(workload.profiles[0].metrics, evidence.metric)
        kind = workload.profiles[0].source
        return Diagnosis(
            subject=candidate.id,
            bottleneck=bottleneck,
            summary=f"{bottleneck.replace('_', ' ')} in {limited[bottleneck]} of {limited.total()} kernel launches: "
            f"{evidence.meaning} ({evidence.metric} = {evidence.value:.3g} on {workload.uuid}, {kind})",
            evidence=(evidence, *more),
        )


def _time_us(workload: WorkloadResult) -> float:
    return workload.timing.candidate_us if isinstance(workload.timing, Measured | Modelled) else 0.0


def _judge(profile: KernelProfile) -> tuple[Bottleneck, Evidence]:
    for rule in _TABLE:
        value = profile.metrics.get(rule.metric)
        if value is not None and rule.holds(value):
            return rule.bottleneck, Evidence(metric=rule.metric, value=value, meaning=rule.meaning)
    value = profile.metrics.get(DRAM, 0.0)
    meaning = "no unit is near its peak: loads wait for memory"
    return "memory_latency", Evidence(metric=DRAM, value=value, meaning=meaning)


_MEANINGS: Mapping[str, str] = {
    WAVES: "waves of blocks over the multiprocessors",
    OCCUPANCY: "resident warps, % of the maximum",
    DRAM: "device memory throughput, % of peak",
    ISSUE: "issue slots used, %",
    XU: "special function unit, % of peak",
    SECTORS_PER_LOAD: "32-byte sectors per global load request",
    REGISTERS: "registers per thread",
}


def _supporting(metrics: Mapping[str, float], cited: str) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(metric=name, value=metrics[name], meaning=meaning)
        for name, meaning in _MEANINGS.items()
        if name in metrics and name != cited
    )


def _without_counters(candidate: Candidate, evaluation: Passed) -> Diagnosis:
    """What can be said from the compiler's report alone."""
    evidence = tuple(
        Evidence(metric=REGISTERS, value=kernel.registers, meaning=f"of {kernel.kernel}")
        for kernel in evaluation.resources
    )
    return Diagnosis(
        subject=candidate.id,
        bottleneck="unknown",
        summary="no counters on this device; the compiler's report alone does not name a bottleneck",
        evidence=evidence,
    )
