"""A problem: definition, workloads, reference and baseline, checked against each other."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Self

from pydantic import Field, model_validator

from astra_kernels.records.base import Record
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.definition import Definition
from astra_kernels.records.expressions import evaluate
from astra_kernels.records.provenance import Provenance
from astra_kernels.records.solution import SolutionSpec
from astra_kernels.records.workload import Workload

MAX_WORKSPACE_BYTES = 64 << 30


class DataFile(Record):
    """A safetensors file that workloads name, by content hash, so that a run notices when it changes."""

    path: str
    sha256: str


class Problem(Record):
    """Everything needed to judge a candidate."""

    definition: Definition
    workloads: tuple[Workload, ...] = Field(min_length=1)
    reference: str
    """Python source that defines `run`, and `reference_fp64` where there is one."""
    spec: SolutionSpec
    baseline: Candidate
    data: tuple[DataFile, ...] = ()
    provenance: Provenance | None = None
    """Where the baseline was taken from, if `astra extract` did it."""
    notes: tuple[str, ...] = Field((), exclude=True)
    """What the importer noticed and the user should know; no part of the problem itself."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        seen: set[str] = set()
        for workload in self.workloads:
            if workload.uuid in seen:
                raise ValueError(f"workload.jsonl: uuid {workload.uuid!r} appears twice")
            seen.add(workload.uuid)
            try:
                workload.check_against(self.definition)
            except ValueError as error:
                raise ValueError(f"workload.jsonl: workload {workload.uuid!r}: {error}") from error
            self._check_expressions(workload)
        if not (self.spec.calls_c or self.spec.destination_passing_style):
            raise ValueError(
                "baseline/solution.json: spec.destination_passing_style: the operator has to write into tensors that "
                "it is given; one that returns new tensors needs a function in front of it"
            )
        try:
            self.spec.resolved_arguments(self.definition)
        except ValueError as error:
            raise ValueError(f"baseline/solution.json: spec.{error}") from error
        known = self.provenance.files if self.provenance is not None else ()
        for file in known:
            if file.path_in_problem not in self.baseline.sources:
                raise ValueError(
                    f"provenance.json: files: {file.path_in_problem!r} is no source of the baseline"
                )
        return self

    def _check_expressions(self, workload: Workload) -> None:
        """Byte and operation counts and the workspace are sizes, for every workload."""
        axes = self.definition.resolve_axes(workload.axes)
        workspace = self.spec.workspace
        for field, text, most in (
            ("definition.json: bytes", self.definition.bytes, None),
            ("definition.json: flops", self.definition.flops, None),
            (
                "baseline/solution.json: spec.workspace.bytes",
                workspace and workspace.bytes,
                MAX_WORKSPACE_BYTES,
            ),
        ):
            if text:
                try:
                    value = evaluate(text, axes)
                except ValueError as error:
                    raise ValueError(f"{field}: {error} (workload {workload.uuid!r})") from None
                if not 0 <= value <= (most or float("inf")):
                    raise ValueError(
                        f"{field}: {text!r} gives {value:g} for workload {workload.uuid!r}"
                    )

    @property
    def name(self) -> str:
        """The definition's name."""
        return self.definition.name

    @cached_property
    def digest(self) -> str:
        """Content hash: a run continues only with the problem that it was started with.

        Defaults do not count, so that a field which later versions add changes nothing.
        """
        return hashlib.sha256(self.model_dump_json(exclude_defaults=True).encode()).hexdigest()[:16]
