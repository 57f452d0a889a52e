"""Metrics of a simulated launch under Nsight Compute's names, rates taken from the modelled time."""

from __future__ import annotations

from astra_kernels.records.evaluation import LineProfile
from astra_kernels.simulator import Launch, LineCounters, Machine, ModelledTime, Resources

_WARP = 32
_SCHEDULERS = 4
_SECTORS_PER_REQUEST = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{}.ratio"
_COUNT = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
_MOST_LINES = 16
WRITTEN = "distinct_bytes_written"
"""Not a name of Nsight Compute's, whose dram__bytes_write.sum is what L2 wrote back during the kernel."""


def launch_metrics(
    launch: Launch, machine: Machine, resources: Resources, modelled: ModelledTime | None
) -> dict[str, float]:
    """Counts as they are; percentages of peak need a time and rest on the model's."""
    counters = launch.counters
    if counters is None:
        return {}
    metrics: dict[str, float] = dict(counters.metrics)
    metrics["dram__bytes_read.sum"] = counters.dram_bytes_read
    metrics[WRITTEN] = counters.distinct_bytes_written
    metrics["launch__registers_per_thread"] = resources.registers_per_thread
    for kind in ("ld", "st"):
        requests = metrics.get(_COUNT.format("requests", kind), 0)
        if requests:
            sectors = metrics[_COUNT.format("sectors", kind)]
            metrics[_SECTORS_PER_REQUEST.format(kind)] = sectors / requests
    if modelled is None:
        return metrics
    clocks = modelled.device_us * machine.clock_mhz * machine.multiprocessors
    moved_gb = (counters.dram_bytes_read + counters.distinct_bytes_written) * 1e-9
    peak_gb = modelled.device_us * 1e-6 * machine.memory_bandwidth_gb_s
    special_clocks = counters.xu_slots * _WARP / machine.lanes_per_clock_per_sm["xu"]
    metrics["dram__throughput.avg.pct_of_peak_sustained_elapsed"] = 100 * moved_gb / peak_gb
    metrics["smsp__issue_active.avg.pct_of_peak_sustained_active"] = (
        100 * counters.issue_slots / _SCHEDULERS / clocks
    )
    metrics["sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active"] = (
        100 * special_clocks / clocks
    )
    metrics["sm__warps_active.avg.pct_of_peak_sustained_active"] = _warps_active(
        launch, machine, modelled
    )
    resident = machine.multiprocessors * modelled.occupancy.blocks_per_sm
    metrics["launch__waves_per_multiprocessor"] = launch.blocks / resident
    return metrics


def _warps_active(launch: Launch, machine: Machine, modelled: ModelledTime) -> float:
    """Percentage of a multiprocessor's warps that hold one, if blocks spread evenly."""
    per_block = -(-launch.threads_per_block // _WARP)
    available = launch.blocks * per_block / machine.multiprocessors
    most = machine.max_threads_per_sm / _WARP
    return 100 * min(modelled.occupancy.warps_per_sm, available) / most


def line_profiles(launch: Launch) -> tuple[LineProfile, ...]:
    """The source lines that execute most warp instructions or move most sectors, the busiest first."""
    if launch.counters is None:
        return ()
    lines = launch.counters.lines
    busiest = sorted(lines, key=lambda at: (-_work(lines[at]), at.file, at.line))
    return tuple(
        LineProfile(file=at.file, line=at.line, metrics=_by_name(lines[at]))
        for at in busiest[:_MOST_LINES]
    )


def _work(counted: LineCounters) -> int:
    return counted.warp_instructions + counted.global_sectors + counted.shared_wavefronts


def _by_name(counted: LineCounters) -> dict[str, float]:
    named = {
        "inst_executed": counted.warp_instructions,
        "l1tex__t_requests_pipe_lsu_mem_global.sum": counted.global_requests,
        "l1tex__t_sectors_pipe_lsu_mem_global.sum": counted.global_sectors,
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": counted.shared_wavefronts,
    }
    return {name: value for name, value in named.items() if value}
