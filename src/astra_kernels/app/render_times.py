"""What stands below the table of times: warm and weighted means, chains, shares of the ceilings, stages."""

from __future__ import annotations

from collections.abc import Iterator

from astra_kernels.records.describe import describe_timing
from astra_kernels.records.evaluation import Measured, Passed, WorkloadResult
from astra_kernels.records.techniques import proven


def time_lines(evaluation: Passed) -> Iterator[str]:
    """One line for each thing that is known."""
    if evaluation.weighted_geomean is not None:
        yield f"weighted by how often it is served: {describe_timing(evaluation.weighted_geomean)}"
    if evaluation.warm_geomean is not None:
        warm = sum(w.warm is not None for w in evaluation.workloads)
        timed = sum(w.timing is not None for w in evaluation.workloads)
        yield (
            f"warm, data in the L2 cache ({warm} of {timed} workloads fit): "
            f"{describe_timing(evaluation.warm_geomean)}"
        )
    for workload in evaluation.workloads:
        yield from _chain(workload)
    yield from _shares(evaluation)
    if evaluation.stage_s:
        stages = ", ".join(
            f"{stage} {seconds:.1f}" for stage, seconds in evaluation.stage_s.items()
        )
        yield f"seconds: {stages}, in all {evaluation.wall_s:.1f}"


def proof_lines(evaluation: Passed) -> Iterator[str]:
    """What the machine code of each kernel proves."""
    for kernel, mix in evaluation.sass_mix.items():
        if found := proven(mix):
            yield f"in the machine code of {kernel}: {', '.join(found)}"


def _chain(workload: WorkloadResult) -> Iterator[str]:
    chain = workload.chain
    if chain is not None:
        yield (
            f"{workload.uuid} between a producer and a consumer: {chain.baseline_us:.2f} us -> "
            f"{chain.candidate_us:.2f} us with early launch, ratio {chain.ratio:.3f} "
            f"[{chain.ratio_low:.3f}, {chain.ratio_high:.3f}]; every kernel waiting: "
            f"{chain.baseline_waiting_us:.2f} us -> {chain.candidate_waiting_us:.2f} us"
        )


def _shares(evaluation: Passed) -> Iterator[str]:
    """Shares of the bandwidth of a copy, and of the time that the ceilings allow."""
    bandwidth = float(evaluation.environment.get("device_copy_gb_s", 0))
    floor_us = float(evaluation.environment.get("device_launch_floor_us", 0))
    found = []
    for workload in evaluation.workloads:
        timing = workload.timing
        if bandwidth and workload.minimum_bytes and isinstance(timing, Measured):
            copy_us = workload.minimum_bytes / bandwidth / 1e3
            found.append(
                (copy_us / timing.candidate_us, (copy_us + floor_us) / timing.candidate_us)
            )
    if found:
        shares = [f"{min(s):.0%} to {max(s):.0%}" for s in zip(*found, strict=True)]
        yield (
            f"candidate at {shares[0]} of the bandwidth of a copy ({bandwidth / 1e3:.2f} TB/s), at "
            f"{shares[1]} of the roofline (the bytes of the task at that bandwidth, plus {floor_us:.2f} us "
            "of an empty kernel)"
        )
