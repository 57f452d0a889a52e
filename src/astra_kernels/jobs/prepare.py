"""One workload made ready for children: inputs, layout and the sealed image."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from astra_kernels.devices.neighbours import alone_on, among_others_on
from astra_kernels.errors import UserError
from astra_kernels.jobs.inputs import Inputs, InputSource
from astra_kernels.jobs.layout import Layout, buffer_sizes, fill_image, lay_out, total_elements
from astra_kernels.jobs.memory import result_area, sealed_image
from astra_kernels.jobs.oracle import Expected
from astra_kernels.jobs.own_oracle import OwnOracle
from astra_kernels.jobs.perturb import flips_of
from astra_kernels.jobs.reference_process import ReferenceProcess
from astra_kernels.jobs.spec import JobSpec, SmallerBatch, WorkloadSpec
from astra_kernels.jobs.wire import Call

_MOST_BYTES = 12 << 30
_MOST_UNCHECKED_BYTES = 1 << 40
_PREPARING = 8
"""Workloads that are prepared at the same time."""
_SHARE_OF_MEMORY = 16
"""Images at one time may take this part of the free memory: inputs, oracle and results come on top."""


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
        """Memory for the bytes after a call; none for a call whose outputs are not looked at."""
        return result_area("result", self.layout.size if self.checked else 0)

    def close(self) -> None:
        """Gives the memory back."""
        os.close(self.image_fd)


class Bench:
    """The workloads of a job with their inputs and oracle, made when first asked for."""

    def __init__(self, spec: JobSpec, job_dir: Path, own: OwnOracle | None = None) -> None:
        """Loads the reference.

        Args:
            spec: the job.
            job_dir: where its files lie.
            own: answers in place of the reference, which then only makes custom inputs.

        Raises:
            UserError: the reference cannot be loaded.
            SetupError: it needs a package that is missing.
        """
        self.spec = spec
        self._job_dir = job_dir
        self._own = own
        self._reference = ReferenceProcess(spec, job_dir)
        self._questions = ThreadPoolExecutor(max_workers=1, thread_name_prefix="oracle")
        """Whoever has a question for the reference queues here: its process answers one at a time."""
        self._answers: dict[str, Future[Expected]] = {}
        self._prepared: dict[str, Prepared] = {}
        self._alone = False
        """Whether this job keeps all others off the device."""

    @property
    def simulated(self) -> bool:
        """Whether the device is a simulated one."""
        return self.spec.device.startswith("sim:")

    @contextlib.contextmanager
    def device_in_use(self) -> Iterator[None]:
        """Keeps other jobs from timing on a real device for the length of a `with` block."""
        if self.simulated or self._alone:
            yield
            return
        with among_others_on(self.spec.device):
            yield

    @contextlib.contextmanager
    def device_alone(self) -> Iterator[None]:
        """Keeps every other job off the device; this one may run further processes on it meanwhile.

        A reference that is itself a kernel does, to judge what was timed.
        """
        with alone_on(self.spec.device):
            self._alone = True
            try:
                yield
            finally:
                self._alone = False

    def prepared(self, workload: WorkloadSpec) -> Prepared:
        """Inputs, layout and image of `workload`.

        Raises:
            UserError: its inputs cannot be made.
            MachineFault: memory is exhausted.
        """
        if workload.uuid not in self._prepared:
            self._prepared[workload.uuid] = self._prepare(workload)
        return self._prepared[workload.uuid]

    def prepare(self, workloads: Sequence[WorkloadSpec]) -> None:
        """Prepares workloads that fit in memory together, several at a time.

        Raises:
            UserError: the inputs of one cannot be made.
            MachineFault: memory is exhausted.
        """
        todo = [w for w in workloads if w.uuid not in self._prepared]
        with ThreadPoolExecutor(max_workers=_PREPARING) as pool:
            futures = [(w.uuid, pool.submit(self._prepare, w)) for w in todo]
        for uuid, future in futures:
            if future.exception() is None:
                self._prepared[uuid] = future.result()
        for _, future in futures:
            future.result()

    def is_checked(self, workload: WorkloadSpec) -> bool:
        """Whether the workload is executed in full and judged."""
        elements = total_elements(self.spec, workload)
        return not self.simulated or elements <= self.spec.limits.checked_elements

    def _prepare(self, workload: WorkloadSpec) -> Prepared:
        checked = self.is_checked(workload)
        total, most = sum(buffer_sizes(self.spec, workload).values()), _most_bytes(checked)
        if total > most:
            raise UserError(
                f"workload {workload.uuid}: its tensors and workspace take {total} bytes; this machine "
                f"can hold {most}"
            )
        if any(source.type == "custom" for source in workload.inputs.values()):
            ask = partial(self._reference.inputs, workload, repeating=not checked)
            inputs = self._questions.submit(ask).result()
        else:
            inputs = InputSource(self.spec, self._job_dir, repeating=not checked).make(workload)
        timed = workload.timed and not self.simulated
        flips = flips_of(self.spec, workload, inputs) if timed else {}
        layout = lay_out(self.spec, workload, inputs, inputs_only=not checked, flips=flips)
        fill = partial(fill_image, layout=layout, inputs=inputs)
        return Prepared(
            workload=workload,
            inputs=inputs if checked else {},
            layout=layout,
            image_fd=sealed_image("image", layout.size, fill),
            checked=checked,
        )

    def again(self, prepared: Prepared, smaller: SmallerBatch | None = None) -> Prepared:
        """A checked workload in fresh memory: the same inputs, or their first rows, and other random bytes elsewhere.

        Whoever asks closes it.

        Raises:
            MachineFault: memory is exhausted.
        """
        workload, inputs = prepared.workload, dict(prepared.inputs)
        if smaller is not None:
            workload = replace(workload, axes=smaller.axes, workspace_bytes=smaller.workspace_bytes)
            inputs = _first_rows(self.spec, inputs, smaller)
        layout = lay_out(self.spec, workload, inputs)
        fill = partial(fill_image, layout=layout, inputs=inputs)
        image_fd = sealed_image("again", layout.size, fill)
        return Prepared(workload, inputs, layout, image_fd, checked=True)

    def expected(self, prepared: Prepared) -> Expected:
        """What the outputs should be.

        Raises:
            UserError: the reference raises or does not fit the definition.
        """
        return self._asked(prepared).result()

    def ask_ahead(self, workloads: Iterable[WorkloadSpec]) -> None:
        """Has the oracle begin with these workloads, which are prepared, while something else goes on."""
        if self._own is not None:
            return  # it needs what is being built
        for workload in workloads:
            if self.is_checked(workload):
                self._asked(self.prepared(workload))

    def _asked(self, prepared: Prepared) -> Future[Expected]:
        uuid = prepared.workload.uuid
        if uuid not in self._answers:
            ask: Callable[[], Expected]
            if self._own is not None:
                ask = partial(self._own.expected, self, prepared)
            else:
                ask = partial(self._reference.expected, prepared.workload, prepared.inputs)
            self._answers[uuid] = self._questions.submit(ask)
        return self._answers[uuid]

    def forget(self, workload: WorkloadSpec) -> None:
        """Gives the memory of an answer back."""
        self._answers.pop(workload.uuid, None)

    def close(self) -> None:
        """Ends the reference's process; what it was still asked is not answered."""
        self._reference.kill()
        self._questions.shutdown(cancel_futures=True)
        self._reference.close()

    def release(self, workloads: Iterable[WorkloadSpec]) -> None:
        """Gives inputs, images and answers of `workloads` back."""
        for workload in workloads:
            prepared = self._prepared.pop(workload.uuid, None)
            if prepared is not None:
                prepared.close()
            self._answers.pop(workload.uuid, None)

    def batches(self, workloads: Iterable[WorkloadSpec]) -> Iterator[list[WorkloadSpec]]:
        """Splits `workloads` into groups that fit in memory together.

        If there are several, only one is held at a time, and made again when it is asked for again.
        """
        groups = list(self._groups(workloads))
        for group in groups:
            yield group
            if len(groups) > 1:
                self.release(group)

    def _groups(self, workloads: Iterable[WorkloadSpec]) -> Iterator[list[WorkloadSpec]]:
        limit = min(_MOST_BYTES, _available_bytes() // _SHARE_OF_MEMORY)
        group: list[WorkloadSpec] = []
        held = 0
        for workload in workloads:
            size = (
                sum(buffer_sizes(self.spec, workload).values()) if self.is_checked(workload) else 0
            )
            if group and held + size > limit:
                yield group
                group, held = [], 0
            group.append(workload)
            held += size
        if group:
            yield group


def _first_rows(spec: JobSpec, inputs: Inputs, smaller: SmallerBatch) -> Inputs:
    rows = smaller.axes[str(spec.batch_axis)]
    leading = {t.name for t in spec.inputs if t.shape and t.shape[0] == spec.batch_axis}
    return {
        name: value[:rows] if isinstance(value, np.ndarray) and name in leading else value
        for name, value in inputs.items()
    }


def _most_bytes(checked: bool) -> int:
    """What a call may take: this machine's memory, or what a simulated device pretends to have."""
    if not checked:
        return _MOST_UNCHECKED_BYTES
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _available_bytes() -> int:
    """Memory that programs may still use; a generous guess where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return _MOST_BYTES * _SHARE_OF_MEMORY
    kilobytes = next((int(x.split()[1]) for x in lines if x.startswith("MemAvailable:")), 0)
    return kilobytes * 1024 or _MOST_BYTES * _SHARE_OF_MEMORY
