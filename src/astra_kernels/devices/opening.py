"""Which device a name means."""

from __future__ import annotations

from pathlib import Path

from astra_kernels.devices.device import Device
from astra_kernels.errors import UserError


def require_device(name: str) -> None:
    """Refuse the name of a device that cannot be.

    Raises:
        UserError: no such kind of device, or no such simulated GPU; known ones are listed.
    """
    kind, _, which = name.partition(":")
    if kind == "sim":
        from astra_kernels.simulator import load_machine

        try:
            load_machine(which)
        except ValueError as error:
            raise UserError(f"{name}: {error}") from None
    elif kind != "cuda" or not which.isdigit():
        raise UserError(f"unknown device {name!r}: use sim:h200 or cuda:0 (or another ordinal)")


def open_device(name: str, cuda_runtime: Path) -> Device:
    """Opens `sim:<gpu>` or `cuda:<ordinal>`.

    Args:
        name: which device.
        cuda_runtime: the shared CUDA runtime that programs are linked against (real devices).

    Raises:
        UserError: no such kind of device, or an unknown GPU name; known ones are listed.
        SetupError: the package for real devices is missing.
        MachineFault: the device does not answer.
    """
    kind, _, which = name.partition(":")
    if kind == "sim":
        from astra_kernels.devices.sim import SimulatedDevice

        return SimulatedDevice(which)
    if kind == "cuda" and which.isdigit():
        from astra_kernels.devices.cuda import CudaDevice

        return CudaDevice(int(which), cuda_runtime)
    raise UserError(f"unknown device {name!r}: use sim:h200 or cuda:0 (or another ordinal)")
