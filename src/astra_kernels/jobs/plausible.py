"""Whether a modelled time can be believed: physics, and as much work as the task needs.

Counters and modelled times come from the process that ran the candidate, and where only a sample of the
blocks ran the outputs are not judged. So the supervisor holds both against what it knows itself: the bytes
of the task, the bandwidth of the datasheet and the baseline's time.
"""

from __future__ import annotations

from astra_kernels.devices.sim_metrics import WRITTEN
from astra_kernels.jobs.layout import elements_of
from astra_kernels.jobs.modelled import Launches, modelled_call
from astra_kernels.jobs.spec import JobSpec, WorkloadSpec
from astra_kernels.records.dtypes import dtype_bytes
from astra_kernels.simulator import load_machine

READ = "dram__bytes_read.sum"
ENOUGH = 0.99
ENOUGH_OF_A_SAMPLE = 0.9
"""Counters scaled from some 64 blocks are off by a few hundredths when blocks differ."""


def doubt(
    spec: JobSpec, workload: WorkloadSpec, baseline_us: float | None, launches: Launches
) -> str | None:
    """Why the modelled time of a call on a simulated device is below what physics allows; None if it is not.

    Where the baseline itself is below the floor, the floor does not hold: a kernel may need a part of its
    inputs only.
    """
    call = modelled_call(launches)
    floor_us, bandwidth_gb_s = _floor(spec, workload)
    if call is None or call.us >= floor_us or (baseline_us is not None and baseline_us < floor_us):
        return None
    return (
        f"the modelled {call.us:.3g} us are below the {floor_us:.3g} us that {workload.minimum_bytes} "
        f"bytes take at the datasheet's {bandwidth_gb_s:.0f} GB/s"
    )


def work_left_out(
    spec: JobSpec, workload: WorkloadSpec, baseline_us: float | None, launches: Launches
) -> str | None:
    """Why the launches of a call whose outputs are not judged cannot have done the task; None if they can.

    Outputs that are updated in place may be written in part, so only the others count. What is moved counts
    only where the floor of `doubt` holds.
    """
    sampled = any(launch.sampled_blocks is not None for launch in launches)
    enough = ENOUGH_OF_A_SAMPLE if sampled else ENOUGH
    written = sum(launch.metrics.get(WRITTEN, 0) for launch in launches)
    moved = written + sum(launch.metrics.get(READ, 0) for launch in launches)
    outputs = sum(
        elements_of(o, workload.axes) * dtype_bytes(o.dtype)
        for o in spec.outputs
        if o.in_place_of is None
    )
    reason = ""
    if written < enough * outputs:
        reason = f"its launches write {written:.0f} bytes, but the outputs have {outputs}"
    elif baseline_us is not None and baseline_us < _floor(spec, workload)[0]:
        return None
    elif moved < enough * workload.minimum_bytes:
        reason = f"its launches move {moved:.0f} bytes, but the task has {workload.minimum_bytes}"
    return f"it was not checked, and {reason}: work was left out" if reason else None


def _floor(spec: JobSpec, workload: WorkloadSpec) -> tuple[float, float]:
    """Microseconds that the bytes of a workload take at the bandwidth of the datasheet, and that in GB/s."""
    bandwidth_gb_s = load_machine(spec.device.partition(":")[2]).memory_bandwidth_gb_s
    return workload.minimum_bytes / (bandwidth_gb_s * 1e3), bandwidth_gb_s
