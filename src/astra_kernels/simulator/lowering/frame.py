"""Where a kernel's variables lie: parameters, shared memory, local memory."""

from __future__ import annotations

from dataclasses import dataclass

from astra_kernels.simulator.errors import InvalidPtx
from astra_kernels.simulator.ptx.syntax import Body, Function, Module, Variable


def _align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


@dataclass(frozen=True)
class Frame:
    """Offsets of a kernel's variables.

    Attributes:
        parameters: Offset and size of each kernel parameter, in order.
        parameter_bytes: Of all parameters.
        shared: Offsets in shared memory; dynamic shared memory starts after all others.
        shared_bytes: Declared statically.
        local: Offsets in a thread's local memory; call parameters live there too.
        local_bytes: A thread.
    """

    parameters: dict[str, tuple[int, int]]
    parameter_bytes: int
    shared: dict[str, int]
    shared_bytes: int
    local: dict[str, int]
    local_bytes: int


# What ptxas and the driver allow at most; a kernel beyond it could not be launched on a GPU either.
_LIMITS = (
    ("parameters", "parameter_bytes", 32_764),
    ("static shared memory", "shared_bytes", 48 << 10),
    ("local memory of a thread", "local_bytes", 512 << 10),
)


def _check_limits(kernel: str, frame: Frame) -> None:
    for what, field, most in _LIMITS:
        size: int = getattr(frame, field)
        if size > most:
            raise InvalidPtx(f"{kernel} has {size} bytes of {what}, of {most} at most")


def _place(variables: list[Variable], at: int = 0) -> tuple[dict[str, int], int]:
    offsets: dict[str, int] = {}
    for variable in variables:
        at = _align(at, variable.alignment)
        offsets[variable.name] = at
        at += variable.size
    return offsets, at


def lay_out(kernel: Function, body: Body, module: Module, used: set[str]) -> Frame:
    """Place the variables.

    Args:
        kernel: For its parameters.
        body: Its body with calls expanded.
        module: For shared variables of the module, of which only those `used` take space.
        used: Names that occur in the body.

    Raises:
        InvalidPtx: They take more room than there is.
    """
    in_module = [v for v in module.variables.values() if v.space == "shared" and v.name in used]
    in_body = [v for v in body.variables if v.space == "shared"]
    fixed = [v for v in (*in_module, *in_body) if not v.external]
    dynamic = [v for v in (*in_module, *in_body) if v.external]
    shared, shared_bytes = _place(fixed)
    start = max([_align(shared_bytes, 16), *(_align(shared_bytes, v.alignment) for v in dynamic)])
    for variable in dynamic:
        shared[variable.name] = start
    if dynamic:
        shared_bytes = start
    parameters, parameter_bytes = _place(list(kernel.parameters))
    local, local_bytes = _place([v for v in body.variables if v.space in ("local", "param")])
    frame = Frame(
        parameters={v.name: (parameters[v.name], v.size) for v in kernel.parameters},
        parameter_bytes=parameter_bytes,
        shared=shared,
        shared_bytes=shared_bytes,
        local=local,
        local_bytes=_align(local_bytes, 16),
    )
    _check_limits(kernel.name, frame)
    return frame
