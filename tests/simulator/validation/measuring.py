"""Outputs and times of points on a device; what was found is written as it goes."""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from astra_kernels.devices.cuda import CudaDevice, CudaError
from astra_kernels.devices.cuda_graph import NotCapturable
from astra_kernels.devices.cuda_harness import Harness
from astra_kernels.devices.cuda_probe import copy_bandwidth_gb_s, launch_floor_us
from astra_kernels.devices.device import Device, Entry
from astra_kernels.jobs.memory import sealed_image
from astra_kernels.jobs.timing_field import Field
from astra_kernels.jobs.wire import Buffer, Call
from tests.simulator.validation.point import Point
from tests.simulator.validation.programs import PointFailed, Programs, arguments, run_point

_ALIGNMENT = 256
_ROUNDS = 11
_WARM_UP_ROUNDS = 2
_WARM_UP_S = 0.4


def entries(
    device: Device, programs: Programs, points: tuple[Point, ...]
) -> Iterator[tuple[Point, Entry]]:
    """Points whose source was built, with their launchers."""
    for point in points:
        if point.source in programs.built:
            library = programs.built[point.source].library
            registers = programs.registers(point.source)
            yield point, device.load(library, point.kernel, registers)


def digest(values: np.ndarray) -> str:
    """Of the bytes."""
    return hashlib.sha256(values.tobytes()).hexdigest()[:32]


def save_outputs(
    device: Device, programs: Programs, points: tuple[Point, ...], folder: Path
) -> None:
    """Writes outputs.json (digests by point and array) and outputs.npz (bytes by digest)."""
    found: dict[str, Any] = {}
    stored: dict[str, np.ndarray] = {}
    for point, entry in entries(device, programs, points):
        try:
            outputs = run_point(device, entry, point)
        except PointFailed as failure:
            found[point.name] = {"failed": str(failure)}
            break  # a faulted context serves no further call
        given = hashlib.sha256(b"".join(x.tobytes() for x in point.inputs())).hexdigest()[:32]
        digests = {name: digest(values) for name, values in outputs.items()}
        found[point.name] = {"inputs": given, "outputs": digests}
        for name, values in outputs.items():
            stored[digests[name]] = values.view(np.uint8)
    write_json(folder / "outputs.json", found)
    np.savez_compressed(folder / "outputs.npz", allow_pickle=False, **stored)


def call_of(point: Point) -> Call:
    """The call as the timing harness takes it: one image with all buffers."""
    filled = point.inputs()
    buffers: list[Buffer] = []
    offset = 0
    for array, values in zip(point.arrays, filled, strict=True):
        size = values.nbytes
        buffers.append(Buffer(name=array.name, offset=offset, size=size, stored=size))
        offset += -(-size // _ALIGNMENT) * _ALIGNMENT

    def fill(image: np.ndarray) -> None:
        image[:] = 0
        for buffer, values in zip(buffers, filled, strict=True):
            image[buffer.offset : buffer.offset + buffer.size] = values.view(np.uint8)

    return Call(
        uuid=point.name,
        image_fd=sealed_image("point", offset, fill),
        result_fds=(),
        size=offset,
        buffers=tuple(buffers),
        arguments=arguments(point),
    )


def save_times(
    device: CudaDevice, programs: Programs, points: tuple[Point, ...], folder: Path, until: float
) -> None:
    """Writes times.json: rounds of each point in microseconds a call, cold, by graph replay.

    Args:
        device: the GPU.
        programs: what was built.
        points: in the order in which they are timed.
        folder: where to write.
        until: when to stop, by the machine's monotonic clock in seconds; what is left is named.
    """
    floor = {
        "launch_floor_us": launch_floor_us(device),
        "copy_gb_s": copy_bandwidth_gb_s(device),
    }
    harness = Harness(device)
    found: dict[str, Any] = {}
    late: list[str] = []
    started = time.monotonic()
    for number, (point, entry) in enumerate(entries(device, programs, points)):
        if time.monotonic() > until:
            late.append(point.name)
            continue
        warm_up_s = 0.0 if number else _WARM_UP_S
        try:
            found[point.name] = _timed(device, harness, point, entry, warm_up_s)
        except CudaError as fault:  # a faulted context serves no further call
            found[point.name] = {"failed": str(fault)}
            break
        if number % 20 == 0:
            write_json(folder / "times.json", {"machine": floor, "points": found, "late": late})
    took = round(time.monotonic() - started, 1)
    write_json(
        folder / "times.json",
        {"machine": floor, "points": found, "late": late, "wall_s": took},
    )


def _timed(
    device: CudaDevice, harness: Harness, point: Point, entry: Entry, warm_up_s: float
) -> dict[str, Any]:
    call = call_of(point)
    field = Field(device, harness, call, [entry])
    os.close(call.image_fd)
    try:
        graph = field.capture_calls(0, field.cold_sets)
    except NotCapturable as reason:
        field.close()
        return {"failed": str(reason)}
    run = partial(graph.launch_apart, device.stream)
    started, done = time.monotonic(), 0
    while done < _WARM_UP_ROUNDS or time.monotonic() - started < warm_up_s:
        field.leg(run, field.cold_sets)
        done += 1
    rounds = [round(field.leg(run, field.cold_sets).us, 4) for _ in range(_ROUNDS)]
    kernels = graph.kernel_nodes // field.cold_sets
    sets = field.cold_sets
    graph.close()
    field.close()
    low, high = median_interval(rounds)
    return {
        "us": statistics.median(rounds),
        "low_us": low,
        "high_us": high,
        "rounds_us": rounds,
        "sets": sets,
        "kernels": kernels,
    }


def median_interval(rounds: list[float]) -> tuple[float, float]:
    """An interval of the median of eleven rounds that holds with 98.8 %: the 2nd least and 2nd largest."""
    ordered = sorted(rounds)
    return ordered[1], ordered[-2]


def write_json(path: Path, document: object) -> None:
    """Replaces a file at once, so that what was there before is never half overwritten."""
    partial_file = path.with_suffix(".partial")
    partial_file.write_text(
        json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8"
    )
    partial_file.replace(path)
