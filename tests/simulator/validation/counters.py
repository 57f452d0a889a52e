"""What ncu counted of a point, and the simulator's figures for the same."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from astra_kernels.devices.executed_sass import executed_classes
from astra_kernels.devices.machine_code import MachineBlock
from astra_kernels.jobs.ncu import parse_raw_page
from astra_kernels.languages.cuda.sass import instruction_class
from astra_kernels.simulator.counting import TimedCounters
from tests.simulator.validation.comparison import Counted
from tests.simulator.validation.simulated import Simulated

Rows = dict[str, dict[str, float]]
_GLOBAL = tuple(
    f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum"
    for what in ("requests", "sectors")
    for op in ("ld", "st")
)
_SHARED = tuple(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for op in ("ld", "st"))
_READ, _WRITE = "dram__bytes_read.sum", "dram__bytes_write.sum"
_LIMITS = {
    **dict.fromkeys(_GLOBAL, 0.02),
    **dict.fromkeys(_SHARED, 0.10),
    "smsp__inst_executed.sum": 0.10,
}
_CLASS_LIMIT = 0.10
_LEAST_SHARE = 0.03
"""A class with a smaller part of all instructions is not compared by itself."""
_EXECUTED = re.compile(
    r"inst_executed$|# ?(of )?Instructions Executed$|^Instructions Executed", re.I
)
_INSTRUCTION = re.compile(r"^\s*(?:@!?U?P[T\d]+\s+)?(?P<opcode>[A-Z][A-Z0-9_]*[\w.]*)")


def read_metrics(folder: Path) -> Rows:
    """Metrics by point, of every batch that ncu profiled."""
    rows: Rows = {}
    for names, page in _batches(folder, "raw"):
        kernels = parse_raw_page(page)
        if len(kernels) != len(names):
            continue  # a batch that was cut short cannot be told apart
        for name, row in zip(names, kernels, strict=True):
            rows[name] = {
                metric: number
                for metric, text in row.items()
                if (number := _number(text)) is not None
            }
    return rows


def read_classes(folder: Path) -> Rows:
    """Warp instructions by class and point, from the pages that say how often each instruction ran."""
    found: Rows = {}
    for names, page in _batches(folder, "source"):
        tables = source_tables(page)
        if len(tables) == 2 * len(names) and tables[::2] == tables[1::2]:
            tables = tables[::2]  # ncu 2025.3 prints the table of every launch twice
        if len(tables) == len(names):
            found |= dict(zip(names, tables, strict=True))
    return found


def source_tables(page: str) -> list[dict[str, float]]:
    """Warp instructions by class, for each kernel of `ncu --page source --csv`."""
    tables: list[dict[str, float]] = []
    source = executed = -1
    for row in csv.reader(page.splitlines()):
        if "Source" in row:
            columns = [index for index, cell in enumerate(row) if _EXECUTED.search(cell.strip())]
            if columns:
                source, executed = row.index("Source"), columns[0]
                tables.append({})
            continue
        if not tables or len(row) <= max(source, executed):
            continue
        instruction, times = _INSTRUCTION.match(row[source]), _number(row[executed])
        if instruction and times is not None:
            name = instruction_class(instruction["opcode"])
            tables[-1][name] = tables[-1].get(name, 0.0) + times
    return tables


def counted(
    here: Simulated,
    measured: Mapping[str, float],
    classes: Mapping[str, float] | None,
    machine: list[MachineBlock] | None,
) -> list[Counted]:
    """Every counter that both have.

    Args:
        here: the point on the simulator.
        measured: what ncu counted.
        classes: warp instructions by class as ncu counted them, where it did.
        machine: the kernel's machine code, where it was disassembled.
    """
    counters = here.launch.counters
    assert isinstance(counters, TimedCounters)
    simulated: dict[str, float] = dict(counters.metrics)
    mix = executed_classes(machine, counters.blocks) if machine else {}
    if mix:
        simulated["smsp__inst_executed.sum"] = sum(mix.values())
    found = [
        Counted(metric, simulated[metric], measured[metric], limit)
        for metric, limit in _LIMITS.items()
        if metric in measured and (measured[metric] or simulated[metric])
    ]
    if mix and classes:
        whole = sum(classes.values())
        found += [
            Counted(f"instructions: {name}", mix.get(name, 0.0), times, _CLASS_LIMIT)
            for name, times in sorted(classes.items())
            if times >= _LEAST_SHARE * whole
        ]
    return found


def of_machine_code(metric: str) -> bool:
    """Whether a metric is of machine instructions."""
    return metric == "smsp__inst_executed.sum" or metric.startswith("instructions: ")


def dram_read(here: Simulated, measured: Mapping[str, float]) -> list[Counted]:
    """Bytes from DRAM with cold caches."""
    counters = here.launch.counters
    assert counters is not None
    if not measured.get(_READ):
        return []
    return [Counted(_READ, counters.dram_bytes_read, measured[_READ], 0.1)]


def written_back(points: Mapping[str, tuple[Simulated, Mapping[str, float]]]) -> dict[str, object]:
    """How much of what a kernel writes comes to DRAM before it is over, which L2 decides.

    Args:
        points: launches by name, and what ncu counted of them.
    """
    shares: dict[str, float] = {}
    for name, (here, measured) in points.items():
        counters = here.launch.counters
        assert counters is not None
        if counters.distinct_bytes_written and _WRITE in measured:
            shares[name] = measured[_WRITE] / counters.distinct_bytes_written
    most = max(shares, key=lambda name: shares[name], default=None)
    return {
        "points": len(shares),
        "nothing": sum(share == 0 for share in shares.values()),
        "most": None if most is None else round(shares[most], 4),
        "most_point": most,
    }


def _batches(folder: Path, page: str) -> list[tuple[list[str], str]]:
    """Names of the launched points and the page, of every batch."""
    found = []
    for file in sorted(folder.glob(f"*.{page}.csv.gz")):
        launched = folder / f"{file.name.split('.')[0]}.launches.json"
        if launched.is_file():
            text = gzip.decompress(file.read_bytes()).decode()
            found.append((json.loads(launched.read_text()), text))
    return found


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def summary(points: Mapping[str, list[Counted]]) -> dict[str, object]:
    """By metric: how many points, how many within the limit, the worst relative difference and where."""
    by_metric: dict[str, list[tuple[str, Counted]]] = {}
    for name, found in points.items():
        for one in found:
            by_metric.setdefault(one.metric, []).append((name, one))
    table: dict[str, object] = {}
    for metric, members in by_metric.items():
        worst = max(members, key=lambda member: abs(member[1].error))
        within = Counter(one.within for _, one in members)
        table[metric] = {
            "points": len(members),
            "within": within[True],
            "limit": members[0][1].limit,
            "worst": round(worst[1].error, 4) if abs(worst[1].error) != float("inf") else None,
            "worst_point": worst[0],
            "outside": [name for name, one in members if not one.within],
        }
    return table
