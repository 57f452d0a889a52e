"""The process that runs a candidate: `python -m astra_kernels.jobs.child REQUEST_FD ANSWER_FD GO_FD`.

It holds the device, the libraries and bytes; no seed, no reference, no expected value. Its answers go out
over its own pipe, line by line, each with a code that `conversation` describes; before every call it waits
for the supervisor's go, so that a job whose verdict is known does not run on. The request is gone, and the
memory of the calls mapped, before the first foreign code is loaded.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from astra_kernels.devices.device import Device, ProgramRefused
from astra_kernels.devices.opening import open_device
from astra_kernels.errors import AstraError, MachineFault
from astra_kernels.jobs.calling import (
    Channel,
    allow_many_descriptors,
    load_programs,
    open_areas,
    run_call,
)
from astra_kernels.jobs.conversation import KEY_BYTES, Seal
from astra_kernels.jobs.memory import read_all
from astra_kernels.jobs.wire import Event, Request, decode_request


def main(arguments: Sequence[str]) -> None:
    """Serves one request and ends."""
    request_fd, answers, go = (int(a) for a in arguments)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # who still talks when nobody listens ends
    allow_many_descriptors()
    content = read_all(request_fd)
    os.close(request_fd)
    key = content[:KEY_BYTES]
    seal = Seal(key)
    key[:] = content[:KEY_BYTES] = bytes(KEY_BYTES)
    request = decode_request(bytes(content[KEY_BYTES:]))
    channel = Channel(answers, go, seal)
    try:
        serve(request, channel)
    except ProgramRefused as refusal:
        channel.tell(Event(kind="failed", detail=str(refusal)))
    except AstraError as fault:
        channel.tell(Event(kind="machine", detail=str(fault), data={"error": type(fault).__name__}))
    except (
        Exception
    ) as fault:  # the process edge: a candidate holds no Python, so this is our own failure
        frame = traceback.extract_tb(fault.__traceback__)[-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        detail = f"the child failed at {place}: {type(fault).__name__}: {fault}"
        channel.tell(Event(kind="machine", detail=detail))
    channel.tell(Event(kind="end"))
    sys.stdout.flush()
    os._exit(0)  # destructors of a candidate's library get no say after the last word


def serve(request: Request, channel: Channel) -> None:
    """Opens the device and does the task."""
    device = open_device(request.device, Path(request.cuda_runtime))
    channel.tell(Event(kind="ready", data=asdict(device.facts)))
    if request.task == "time":
        from astra_kernels.jobs.timing_child import time_calls

        time_calls(request, device, channel)
        return
    areas = [open_areas(call) for call in request.calls]
    channel.tell(Event(kind="loading"))
    entries = load_programs(request, device)
    spoil = _spoiler(request, device)
    for index, call in enumerate(request.calls):
        if not channel.may_go_on():
            return
        channel.tell(Event(kind="begin", index=index))
        spoil()
        report = run_call(device, entries[0], call, areas[index])
        channel.tell(Event(kind="done", index=index, data=asdict(report)))
        if report.fault is not None:
            return  # a faulted context serves no further call


def _spoiler(request: Request, device: Device) -> Callable[[], None]:
    """What makes a real device forget before a checked call; tools that count kernels see only the candidate's."""
    if request.task != "check" or request.device.startswith("sim:"):
        return lambda: None
    from astra_kernels.devices.cuda import CudaDevice
    from astra_kernels.devices.cuda_harness import SharedMemory

    if not isinstance(device, CudaDevice):
        raise MachineFault(f"{request.device} is no CUDA device")
    return SharedMemory(device).spoil


if __name__ == "__main__":
    main(sys.argv[1:])
