"""Stub."""

from __future__ import annotations

from astra_kernels.agents.rewrites.program import Applied, ParameterPoint, Program, Refused
from astra_kernels.agents.rewrites.reach import Reachable


def constant_points(program: Program, reachable: Reachable) -> tuple[ParameterPoint, ...]:
    return ()


def change_constant(program: Program, reachable: Reachable, width: int) -> Applied | Refused | None:
    return None
