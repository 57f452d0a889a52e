"""What children share: the pipes to the supervisor, loading programs, and one checked call."""

from __future__ import annotations

import fcntl
import os
import resource
import secrets
from pathlib import Path

import numpy as np

from astra_kernels.devices.device import CallReport, CArgument, Device, Entry
from astra_kernels.jobs.conversation import Seal
from astra_kernels.jobs.memory import taken_over
from astra_kernels.jobs.wire import Buffer, Call, Event, Request

_MOST_DESCRIPTORS = 1 << 16
Areas = tuple[np.ndarray, np.ndarray]
"""The image of a call, and the memory for the bytes after it."""


class Channel:
    """The pipes to the supervisor, at descriptors that nobody can guess."""

    def __init__(self, answers: int, go: int, seal: Seal) -> None:
        self._answers = _hidden(answers)
        self._go = _hidden(go)
        self._seal = seal

    def tell(self, event: Event) -> None:
        """Sends one event."""
        line = memoryview(self._seal.sealed(event.encode()))
        while line:
            line = line[os.write(self._answers, line) :]

    def may_go_on(self) -> bool:
        """Waits for the next go; False when the supervisor wants no more."""
        return bool(os.read(self._go, 1))


def _hidden(descriptor: int) -> int:
    """Moves a descriptor to a number chosen by chance; it is closed on exec."""
    most = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], _MOST_DESCRIPTORS)
    lowest = most // 4 + secrets.randbelow(most // 2)
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest)
    os.close(descriptor)
    return moved


def allow_many_descriptors() -> None:
    """Lets descriptors have high numbers, as far as this process may decide that."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def load_programs(request: Request, device: Device) -> list[Entry]:
    """Loads every program of the request."""
    return [device.load(Path(p.library), p.symbol, p.registers) for p in request.programs]


def open_areas(call: Call) -> Areas:
    """Maps the image and the result of a call, and closes their descriptors."""
    image = taken_over(call.image_fd)
    return image, taken_over(call.result_fds[0], writable=True)


def run_call(device: Device, entry: Entry, call: Call, areas: Areas) -> CallReport:
    """Copies the image in, calls once, and copies everything back."""
    image, result = areas
    if not (device.separate_buffers or call.separate):
        return _run_in_slab(device, entry, call, areas)
    addresses = [device.allocate(b.size) for b in call.buffers]
    for address, buffer in zip(addresses, call.buffers, strict=True):
        _fill(device, address, buffer, image)
    report = device.call(
        entry,
        bound_arguments(call, addresses, device),
        sampled=call.sampled,
        checked_order=call.checked_order,
    )
    if report.fault is not None:
        return report  # a faulted context gives nothing back
    if result.size:
        result[:] = image
        for address, buffer in zip(addresses, call.buffers, strict=True):
            device.read(address, result[buffer.offset : buffer.offset + buffer.size])
    for address in addresses:
        device.free(address)
    return report


def _fill(device: Device, address: int, buffer: Buffer, image: np.ndarray) -> None:
    """Writes the stored bytes of a buffer as often as it takes."""
    if buffer.stored:
        for start in range(0, buffer.size, buffer.stored):
            size = min(buffer.stored, buffer.size - start)
            device.write(address + start, image[buffer.offset : buffer.offset + size])


def _run_in_slab(device: Device, entry: Entry, call: Call, areas: Areas) -> CallReport:
    """One allocation for the whole image, guards included."""
    image, result = areas
    slab = device.allocate(call.size)
    device.write(slab, image)
    report = device.call(entry, bound_arguments(call, addresses_in(slab, call), device))
    if report.fault is None:
        device.read(slab, result)
        device.free(slab)
    return report


def addresses_in(slab: int, call: Call) -> list[int]:
    """Addresses of a call's buffers in an image at `slab`; empty tensors have none."""
    return [slab + b.offset if b.size else 0 for b in call.buffers]


def bound_arguments(call: Call, addresses: list[int], device: Device) -> list[CArgument]:
    """A call's C arguments."""
    return [a.bound(addresses, device.stream) for a in call.arguments]
