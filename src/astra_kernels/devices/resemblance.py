"""How much blocks of two control-flow graphs resemble one another, their surroundings included.

Blocks of one source line (inlined functions, versions of a loop) look alike; what comes before and after
them tells them apart. As in S. Melnik et al., "Similarity Flooding" (ICDE 2002), resemblance spreads over
the edges of both graphs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from astra_kernels.devices.machine_code import MachineBlock
from astra_kernels.simulator.control_flow import ControlFlow
from astra_kernels.simulator.executed import Anchor, ExecutedBlock, Line

Matrix = NDArray[np.float64]
_ROUNDS = 12
_AROUND = 0.3
"""What the blocks before count for, and as much those behind; the rest is the block's own."""
_ANCHOR_WEIGHT = 3.0
_OTHER_DEPTH = 0.3
"""What is left of the resemblance of blocks inside more loops or fewer."""


def resemblance(
    machine: Sequence[MachineBlock],
    ours: ControlFlow,
    ptx: Sequence[ExecutedBlock],
    theirs: ControlFlow,
) -> Matrix:
    """Of each block of machine code with each of the PTX, from 0 to 1; 0 with what nothing leads to.

    By themselves: instructions of a source line that both have, as a part of those that one of them has.
    """
    every: list[MachineBlock | ExecutedBlock] = [*machine, *ptx]
    keys = dict.fromkeys(key for block in every for key in (*block.lines, *block.anchors))
    at: dict[Line | Anchor, int] = {key: index for index, key in enumerate(keys)}
    rows = np.array([_counts(block, at) for block in machine])
    columns = np.array([_counts(block, at) for block in ptx])
    own = np.zeros((len(machine), len(ptx)))
    for index, row in enumerate(rows):
        either = np.maximum(row, columns).sum(axis=1)
        own[index] = np.minimum(row, columns).sum(axis=1) / np.maximum(either, 1)
    other = np.not_equal.outer(ours.depths, theirs.depths)
    found = spread(np.where(other, _OTHER_DEPTH * own, own), ours, theirs)
    found[:, [n for n in range(len(ptx)) if n not in theirs.reachable]] = 0
    return found


def _counts(block: MachineBlock | ExecutedBlock, at: Mapping[Line | Anchor, int]) -> Matrix:
    counts = np.zeros(len(at))
    for line, number in block.lines.items():
        counts[at[line]] = number
    for anchor, share in block.anchors.items():
        counts[at[anchor]] = _ANCHOR_WEIGHT * share
    return counts


def spread(own: Matrix, ours: ControlFlow, theirs: ControlFlow) -> Matrix:
    """Resemblance with surroundings, from 0 to 1.

    Args:
        own: resemblance of each block of `ours` with each of `theirs`, by themselves, from 0 to 1.
        ours: the graph of the rows.
        theirs: the graph of the columns.
    """
    sides = [(_neighbours(ours, back), _neighbours(theirs, back)) for back in (False, True)]
    found = own
    for _ in range(_ROUNDS):
        ends = np.ones((own.shape[0] + 1, own.shape[1] + 1))
        ends[:-1, -1] = ends[-1, :-1] = 0.0  # the end resembles the end alone
        ends[:-1, :-1] = found
        around = [_best(ends, rows, columns) for rows, columns in sides]
        found = (1 - 2 * _AROUND) * own + _AROUND * (around[0] + around[1])
    return found


def _best(found: Matrix, rows: list[list[int]], columns: list[list[int]]) -> Matrix:
    """For each pair, how well the neighbours of each fit the best of the other's."""
    by_column = np.stack([found[:, c].max(axis=1) for c in columns], axis=1)
    forth = np.stack([by_column[r].mean(axis=0) for r in rows])
    by_row = np.stack([found[r].max(axis=0) for r in rows])
    back = np.stack([by_row[:, c].mean(axis=1) for c in columns], axis=1)
    return np.asarray((forth + back) / 2, np.float64)


def _neighbours(flow: ControlFlow, back: bool) -> list[list[int]]:
    """Of each block; the start and the end stand for what is not there."""
    end = len(flow.successors)
    if back:
        return [sorted(set(before)) or [end] for before in flow.predecessors[:-1]]
    return [sorted(set(following)) or [end] for following in flow.successors]
