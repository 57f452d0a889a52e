"""The section "Checked against an H200" of docs/simulator.md, from a comparison; rows wait where there is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.simulator.validation.corpus import CHECKED, KERNELS, TIMED
from tests.simulator.validation.holdout import listed

BEGIN, END = "<!-- begin: validation -->", "<!-- end: validation -->"
_WAITING = "not measured yet"
_COUNTERS = {
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": "global load requests",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "global load sectors",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": "global store requests",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": "global store sectors",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": "shared load wavefronts",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": "shared store wavefronts",
    "dram__bytes_read.sum": "bytes from DRAM, of large launches",
    "smsp__inst_executed.sum": "warp instructions, of machine code",
}


def page(text: str, folder: Path) -> str:
    """The document with its section as the folder's comparison.json has it."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    file = folder / "comparison.json"
    found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return f"{before}{BEGIN}\n\n{_tables(found, folder)}\n{END}{after}"


def _tables(found: dict[str, Any], folder: Path) -> str:
    where = _WAITING
    if found:
        m = found["measured"]
        where = (
            f"{found['device']}, {m['date'][:10]}, commit {m['commit'][:7]}, nvcc {m['nvcc']} there and "
            f"{found['nvcc_here']} here; raw data under [results/{folder.name}](results/{folder.name}/)"
        )
    lines = [
        f"Corpus: {len(KERNELS)} kernels, {len(CHECKED)} calls whose outputs and counters are compared, "
        f"{len(TIMED)} timed points of which {len(listed())} are held out from every fit "
        "(`tests/simulator/validation/holdout.json`, written before any was measured). "
        f"Measured: {where}.\n",
        *_outputs(found.get("outputs")),
        *_counters(found.get("counters"), found.get("dram")),
        *_written_back(found.get("written_back")),
        *_larger(found.get("larger")),
        *_times(found.get("times")),
    ]
    return "\n".join(lines)


def _outputs(rows: dict[str, Any] | None) -> list[str]:
    head = [
        "| outputs | calls | same bits | within the limit | further off |",
        "|---|---|---|---|---|",
    ]
    cells = {
        "bit for bit": (_WAITING, "", "", ""),
        "approximate instructions": (_WAITING, "", "", ""),
    }
    if rows:
        for label, exact in (("bit for bit", True), ("approximate instructions", False)):
            part = {n: r for n, r in rows.items() if (r["limit"] == 0) == exact}
            off = [name for name, row in part.items() if not row["within"]]
            same = sum(row["ulps"] == 0 for row in part.values())
            cells[label] = (
                str(len(part)),
                str(same),
                str(len(part) - len(off)),
                "; ".join(off) or "none",
            )
    return [*head, *(f"| {label} | {' | '.join(row)} |" for label, row in cells.items()), ""]


def _written_back(found: dict[str, Any] | None) -> list[str]:
    if not found:
        return []
    return [
        f"Of the bytes that {found['points']} large launches write, {found['nothing']} had not one written back to "
        f"DRAM before they were over (`dram__bytes_write.sum`), the others up to {found['most']:.0%} "
        f"({found['most_point']}): L2 has room for the rest. What is called *distinct bytes written* here is "
        "what must come to DRAM in the end, and has no counterpart among these counters.",
        "",
    ]


def _counters(rows: dict[str, Any] | None, large: dict[str, Any] | None = None) -> list[str]:
    lines = [
        "| counter, against Nsight Compute | calls | limit | within it | worst | where |",
        "|---|---|---|---|---|---|",
    ]
    rows = None if rows is None else {**rows, **(large or {})}
    names = {**_COUNTERS, **{m: m for m in rows or {} if m not in _COUNTERS}}
    for metric, label in names.items():
        row = (rows or {}).get(metric)
        if row is None:
            lines.append(f"| {label} | {_WAITING if rows is None else 'not counted'} | | | | |")
            continue
        worst = "only here" if row["worst"] is None else f"{row['worst']:+.1%}"
        lines.append(
            f"| {label} | {row['points']} | {row['limit']:.0%} | {row['within']} | {worst} | {row['worst_point']} |"
        )
    return [*lines, ""]


def _larger(rows: dict[str, Any] | None) -> list[str]:
    if not rows:
        return []
    total = rows["smsp__inst_executed.sum"]
    worst = max(rows, key=lambda metric: abs(rows[metric]["worst"] or 0))
    outside = sorted({name for row in rows.values() for name in row["outside"]})
    return [
        f"Machine instructions of {total['points']} larger calls of the same kernels: all classes within 10 % on "
        f"{total['points'] - len(outside)}, {'not on ' + '; '.join(outside) if outside else 'worst'} "
        f"{rows[worst]['worst']:+.1%} ({worst.removeprefix('instructions: ')}, {rows[worst]['worst_point']}).",
        "",
    ]


def _times(found: dict[str, Any] | None) -> list[str]:
    lines = [
        "| modelled against measured times | points | median absolute error | Kendall's tau "
        "| of pairs told apart | pairs told apart | ordered right | wrong | within the model's error |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for part, label in (("all", "all"), ("held_out", "held out"), ("rest", "the rest")):
        if found is None:
            lines.append(f"| {label} | {_WAITING} | | | | | | | |")
            continue
        row = found[part]
        error = (
            "" if row["median_absolute_error"] is None else f"{row['median_absolute_error']:.1%}"
        )
        tau, apart = (
            "" if row[name] is None else f"{row[name]:.2f}" for name in ("tau", "tau_apart")
        )
        share = "" if row["share_right"] is None else f" ({row['share_right']:.0%})"
        lines.append(
            f"| {label} | {row['points']} | {error} | {tau} | {apart} | {row['pairs']} "
            f"| {row['right']}{share} | {row['wrong']} | {row['within_error']} |"
        )
    return [
        *lines,
        "",
        "A pair is two variants of a kernel on a shape whose measured intervals do not overlap; it counts as "
        "held out when one of the two is. *Within the model's error*: modelled times that differ by no more "
        "than the stated error of a gain, which decide nothing.",
    ]
