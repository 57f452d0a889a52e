"""Counters of a candidate's kernels, as tables, and as values that a diagnosis may cite."""

from __future__ import annotations

from collections.abc import Mapping

from astra_kernels.agents.llm.briefing.tables import number, short, table
from astra_kernels.records.evaluation import KernelProfile, Measured, Modelled, Passed
from astra_kernels.records.techniques import proven

REGISTERS = "launch__registers_per_thread"


def counters_text(evaluation: Passed) -> str:
    """One column for every launch of a timed workload; counters that are zero everywhere are left out."""
    launches = _launches(evaluation)
    if not launches:
        return "There are no counters on this device."
    names = list(dict.fromkeys(name for _, p in launches for name in p.metrics))
    used = [n for n in names if any(p.metrics.get(n) for _, p in launches)]
    rows = [
        ("kernel", *(short(p.kernel, 60) for _, p in launches)),
        ("grid x block", *(f"{_product(p.grid)} x {_product(p.block)}" for _, p in launches)),
        ("dynamic shared bytes", *(str(p.dynamic_shared_bytes) for _, p in launches)),
        *((n, *(number(p.metrics.get(n)) for _, p in launches)) for n in used),
    ]
    return table(("counter", *(uuid for uuid, _ in launches)), rows) + lines_text(evaluation)


def lines_text(evaluation: Passed) -> str:
    """The busiest source lines of the slowest launch that was counted by line; empty where none was."""
    counted = [
        (w.timing.candidate_us, w.uuid, p)
        for w in evaluation.workloads
        if isinstance(w.timing, Measured | Modelled) and not w.hidden
        for p in w.profiles
        if p.lines
    ]
    if not counted:
        return ""
    _, workload, profile = max(counted, key=lambda c: c[0])
    names = sorted({name for line in profile.lines for name in line.metrics})
    rows = [
        (f"`{line.file}:{line.line}`", *(number(line.metrics.get(name)) for name in names))
        for line in profile.lines
    ]
    head = f"Busiest lines of {short(profile.kernel, 60)} on {workload}:"
    return f"\n\n{head}\n\n{table(('line', *names), rows)}"


def compiled_text(evaluation: Passed) -> str:
    """What the compiler reports of every kernel, and which techniques its machine code proves."""
    rows = [
        (
            short(r.kernel, 80),
            str(r.registers),
            f"{r.spill_store_bytes} + {r.spill_load_bytes}",
            str(r.static_shared_bytes),
            ", ".join(proven(evaluation.sass_mix.get(r.kernel, {}))) or "-",
        )
        for r in evaluation.resources
    ]
    head = (
        "kernel",
        REGISTERS,
        "spilled bytes (stores + loads)",
        "static shared bytes",
        "proven by its machine code",
    )
    return table(head, rows)


def citable(evaluation: Passed) -> Mapping[str, tuple[float, ...]]:
    """Every value of every counter by name; registers from the compiler's report where there are no counters."""
    found: dict[str, list[float]] = {}
    for _, profile in _launches(evaluation):
        for name, value in profile.metrics.items():
            found.setdefault(name, []).append(value)
    for kernel in evaluation.resources:
        found.setdefault(REGISTERS, []).append(kernel.registers)
    return {name: tuple(values) for name, values in found.items()}


def _launches(evaluation: Passed) -> list[tuple[str, KernelProfile]]:
    return [
        (w.uuid, p)
        for w in evaluation.workloads
        if w.timing is not None and not w.hidden
        for p in w.profiles
    ]


def _product(sizes: tuple[int, int, int]) -> str:
    return str(sizes[0]) if sizes[1:] == (1, 1) else "(" + ", ".join(map(str, sizes)) + ")"
