"""How it was found and measured, and on what: in words, from what the record says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from astra_kernels.records.describe import describe_timing
from astra_kernels.records.evaluation import Measured, Modelled, Passed
from astra_kernels.records.run import RunConfig

if TYPE_CHECKING:
    from astra_kernels.reporting.facts import Report

_NAMES = {
    "nvcc": "nvcc",
    "host_compiler": "host compiler",
    "device_name": "GPU",
    "device_multiprocessors": "multiprocessors",
    "device_clock_mhz": "boost clock, MHz",
    "device_timed_at_mhz": "clock while timing, MHz",
    "device_memory_bytes": "memory, bytes",
    "device_l2_bytes": "L2 cache, bytes",
    "device_bandwidth_gb_s": "bandwidth by the datasheet, GB/s",
    "device_copy_gb_s": "rate of a copy (measured), GB/s",
    "device_launch_floor_us": "an empty kernel (measured), us",
    "device_driver": "driver",
    "python": "Python",
    "numpy": "NumPy",
}


def method_facts(report: Report) -> tuple[str, ...]:
    """Sentences on how the verdict was reached."""
    return tuple(_method(report))


def _method(report: Report) -> Iterator[str]:
    judged = report.judged
    if judged is None:
        return
    if judged.oracle:
        yield f"Correctness: every output against the oracle ({judged.oracle}); the error of the baseline is the yardstick."
    checked = sum(w.checked for w in judged.workloads)
    hidden = sum(w.hidden for w in judged.workloads)
    yield f"{checked} workloads were compared, {hidden} of them drawn from a secret seed after the candidate was frozen."
    if judged.safety:
        tools = ", ".join(f"{c.tool} {c.verdict.replace('_', ' ')}" for c in judged.safety)
        yield f"Safety: {tools}."
    match judged.geomean:
        case Measured(rounds=rounds, cache=cache, discarded=discarded):
            yield (
                f"Time: device time of CUDA graph replays, baseline and candidate interleaved, {rounds} rounds or more a "
                f"workload, {cache} cache, {discarded} rounds left out for the clock; intervals hold 95 %."
            )
        case Modelled(model_error=error, sampled=sampled):
            sample = ", from a sample of blocks where the workload is large" if sampled else ""
            yield (
                f"Time: modelled on a simulated device{sample}. Intervals are the model's stated error of a gain "
                f"({error:.0%}), not a confidence interval. No GPU took part."
            )
    for name, timing in (
        ("Weighted by how often a workload is served", judged.weighted_geomean),
        ("Warm, with the data in L2", judged.warm_geomean),
    ):
        if timing is not None:
            yield f"{name}: {describe_timing(timing)}."


def search_facts(report: Report) -> tuple[tuple[str, str], ...]:
    """Who searched, for how long, at what cost."""
    config, history = report.started.config, report.history
    rows = [
        (
            "agents",
            _agents(config),
        ),
        ("strategy", f"{config.strategy}, {history.rounds_ended} rounds"),
        ("candidates judged", str(len(history.attempts))),
        (
            "time",
            f"{history.elapsed_s / 60:.0f} min"
            if history.elapsed_s >= 120
            else f"{history.elapsed_s:.0f} s",
        ),
    ]
    if config.screen:
        rows.append(("screened first on", config.screen))
    ledger = history.ledger
    if ledger.asked:
        price = (
            f", {ledger.usd:.2f} USD" if ledger.unpriced < ledger.requests else ", price unknown"
        )
        rows.append(
            ("language models", f"{ledger.requests:,} requests, {ledger.tokens:,} tokens{price}")
        )
    return tuple(rows)


def _agents(config: RunConfig) -> str:
    if config.agents == "outside":
        return "outside: whoever called the tools of astra mcp"
    return config.agents + (f", {config.model}" if config.model else ", no language model")


def environment_facts(report: Report) -> tuple[tuple[str, str], ...]:
    """Versions and the device, as the worker found them."""
    judged = report.judged or report.history.baseline_evaluation
    known = judged.environment if judged else {}
    rows = [
        ("Astra", report.started.astra_version),
        ("device", report.device),
        ("begun", report.started.at),
    ]
    rows += [(_NAMES.get(name, name.replace("_", " ")), value) for name, value in known.items()]
    if judged is not None and judged.sandbox:
        rows.append(("sandbox", judged.sandbox))
    if isinstance(judged, Passed):
        for kernel in judged.resources:
            spilled = kernel.spill_store_bytes + kernel.spill_load_bytes
            rows.append(
                (
                    f"kernel {kernel.kernel}",
                    f"{kernel.registers} registers, {spilled} bytes spilled",
                )
            )
    return tuple(rows)
