"""What limits a kernel, and what to try about it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from astra_kernels.records.base import Record

Bottleneck = Literal[
    "memory_bandwidth",
    "memory_latency",
    "instruction_issue",
    "special_functions",
    "parallelism",
    "occupancy",
    "launch",
    "unknown",
]


class Evidence(Record):
    """One number that a diagnosis rests on."""

    metric: str
    """Nsight Compute's name where the meaning is the same."""
    value: float
    meaning: str


class Diagnosis(Record):
    """What limits a candidate now, with the counters that say so."""

    subject: str
    """Identifier of the candidate."""
    bottleneck: Bottleneck
    summary: str
    evidence: tuple[Evidence, ...]


class Plan(Record):
    """One hypothesis: what to change, why it should help, by how much, and what could go wrong."""

    id: str
    parent: str
    """Identifier of the candidate to change."""
    technique: str
    """Key of the technique, such as `launch_geometry`."""
    hypothesis: str
    predicted_gain: float = Field(gt=0)
    """Expected baseline time over candidate time, relative to the parent."""
    risk: str
    parameters: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """The point of the technique's search space; empty leaves the choice to the coding agent."""
