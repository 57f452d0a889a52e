"""One workload made ready for children: inputs, layout and the sealed image."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from astra_kernels.jobs.inputs import Inputs, make_inputs
from astra_kernels.jobs.layout import Layout, image_of, lay_out, total_elements
from astra_kernels.jobs.memory import mapped, result_area, sealed
from astra_kernels.jobs.oracle import Expected, Oracle
from astra_kernels.jobs.reference import Reference
from astra_kernels.jobs.spec import JobSpec, WorkloadSpec
from astra_kernels.jobs.wire import Call

BATCH_BYTES = 12 << 30
"""Images of more bytes than this are not held at one time."""


@dataclass
class Prepared:
    """A workload whose bytes lie in sealed memory."""

    workload: WorkloadSpec
    inputs: Inputs
    layout: Layout
    image_fd: int
    checked: bool
    """False for a workload that a simulated device only samples."""

    def call(self, result_fds: tuple[int, ...]) -> Call:
        """The call as a child gets it."""
        return Call(
            uuid=self.workload.uuid,
            image_fd=self.image_fd,
            result_fds=result_fds,
            size=self.layout.size,
            buffers=self.layout.buffers,
            arguments=self.layout.arguments,
            sampled=not self.checked,
        )

    def new_result(self) -> int:
        """Memory for the bytes after a call."""
        return result_area("result", self.layout.size)

    def original(self) -> np.ndarray:
        """A copy of the bytes before the call."""
        return mapped(self.image_fd).copy()

    def close(self) -> None:
        """Gives the memory back."""
        os.close(self.image_fd)


class Bench:
    """The workloads of a job with their inputs and oracle, made when first asked for."""

    def __init__(self, spec: JobSpec, job_dir: Path) -> None:
        """Loads the reference.

        Raises:
            UserError: the reference cannot be loaded.
            SetupError: it needs a package that is missing.
        """
        path = job_dir / "reference.py"
        self.spec = spec
        self._job_dir = job_dir
        self._reference = Reference(path)
        self._oracle = Oracle(spec, self._reference, path)
        self._prepared: dict[str, Prepared] = {}

    @property
    def simulated(self) -> bool:
        """Whether the device is a simulated one."""
        return self.spec.device.startswith("sim:")

    def prepared(self, workload: WorkloadSpec) -> Prepared:
        """Inputs, layout and image of `workload`.

        Raises:
            UserError: its inputs cannot be made.
            MachineFault: memory is exhausted.
        """
        if workload.uuid not in self._prepared:
            inputs = make_inputs(self.spec, workload, self._job_dir, self._reference)
            layout = lay_out(self.spec, workload, inputs)
            descriptor = sealed("image", image_of(layout, inputs).data)
            elements = total_elements(self.spec, workload)
            checked = not self.simulated or elements <= self.spec.limits.checked_elements
            self._prepared[workload.uuid] = Prepared(workload, inputs, layout, descriptor, checked)
        return self._prepared[workload.uuid]

    def expected(self, prepared: Prepared) -> Expected:
        """What the outputs should be.

        Raises:
            UserError: the reference raises or does not fit the definition.
        """
        return self._oracle.expected(prepared.workload, prepared.inputs)

    def release(self, workloads: Iterable[WorkloadSpec]) -> None:
        """Gives inputs, images and answers of `workloads` back."""
        for workload in workloads:
            prepared = self._prepared.pop(workload.uuid, None)
            if prepared is not None:
                prepared.close()
            self._oracle.forget(workload)

    def batches(self, workloads: Iterable[WorkloadSpec]) -> Iterator[list[WorkloadSpec]]:
        """Splits `workloads` into groups whose images fit in memory together."""
        batch: list[WorkloadSpec] = []
        held = 0
        for workload in workloads:
            size = self.prepared(workload).layout.size
            if batch and held + size > BATCH_BYTES:
                yield batch
                batch, held = [], 0
            batch.append(workload)
            held += size
        if batch:
            yield batch
