"""What children share: the pipes to the supervisor, loading programs, and one checked call."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from astra_kernels.devices.device import CallReport, CArgument, Device, Entry
from astra_kernels.jobs.memory import mapped
from astra_kernels.jobs.wire import Buffer, Call, Event, Request


class Channel:
    """The pipes to the supervisor."""

    def __init__(self, answers: int, go: int) -> None:
        self._answers = answers
        self._go = go

    def tell(self, event: Event) -> None:
        """Sends one event."""
        line = memoryview(event.encode())
        while line:
            line = line[os.write(self._answers, line) :]

    def may_go_on(self) -> bool:
        """Waits for the next go; False when the supervisor wants no more."""
        return bool(os.read(self._go, 1))


def load_programs(request: Request, device: Device) -> list[Entry]:
    """Loads every program of the request."""
    return [device.load(Path(p.library), p.symbol, p.registers) for p in request.programs]


def run_call(device: Device, entry: Entry, call: Call) -> CallReport:
    """Copies the image in, calls once, and copies everything back."""
    image, result = mapped(call.image_fd), mapped(call.result_fds[0], writable=True)
    if not device.separate_buffers:
        return _run_in_slab(device, entry, call, (image, result))
    addresses = [device.allocate(b.size) for b in call.buffers]
    for address, buffer in zip(addresses, call.buffers, strict=True):
        _fill(device, address, buffer, image)
    report = device.call(entry, bound_arguments(call, addresses, device), sampled=call.sampled)
    if report.fault is None and result.size:
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


def _run_in_slab(
    device: Device, entry: Entry, call: Call, areas: tuple[np.ndarray, np.ndarray]
) -> CallReport:
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
