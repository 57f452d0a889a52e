"""What a job's programs are called by: their own C function, or a generated one in front of a framework's operator."""

from __future__ import annotations

from collections.abc import Mapping

from astra_kernels.errors import UserError
from astra_kernels.jobs.spec import ArgumentSpec, JobSpec, TensorSpec
from astra_kernels.languages.bindings.adapter import Adapter, Parameter
from astra_kernels.languages.bindings.torch import torch_adapter
from astra_kernels.languages.bindings.tvm_ffi import tvm_ffi_adapter

WORKSPACE = "workspace"
WORKSPACE_BYTES = "workspace_bytes"
"""Kind of the argument that says how large the workspace is; also the name of its axis."""
MESSAGE = "message"
"""C type of the argument into which a generated entry point writes why it failed."""
_BYTES = TensorSpec(name=WORKSPACE, dtype="uint8", shape=(WORKSPACE_BYTES,))


def adapter_of(spec: JobSpec) -> Adapter | None:
    """What is built beside the sources of a job's programs; None for the C binding.

    Raises:
        SetupError: a package that the binding needs is not installed.
        UserError: there is no such binding.
    """
    if spec.binding == "c":
        return None
    parameters = tuple(_parameter(spec, a) for a in spec.arguments)
    axes = tuple(_axes(spec))
    program = spec.subject
    if spec.binding == "tvm-ffi":
        return tvm_ffi_adapter(program.entry_symbol, parameters, axes)
    if spec.binding == "torch":
        entry = (program.entry_file, program.entry_symbol)
        simulated = spec.device.startswith("sim:")
        return torch_adapter(entry, parameters, axes, simulated=simulated)
    raise UserError(f"binding {spec.binding!r} is unknown: use c, tvm-ffi or torch")


def c_arguments(spec: JobSpec) -> tuple[ArgumentSpec, ...]:
    """The arguments of the C function that is called."""
    if spec.binding == "c":
        return spec.arguments
    brought = (a for a, p in ((a, _parameter(spec, a)) for a in spec.arguments) if p.brought)
    return (
        *brought,
        *(ArgumentSpec(name=a, kind=_axis_kind(a), ctype="int64") for a in _axes(spec)),
        ArgumentSpec(name="stream", kind="stream", ctype="stream"),
        ArgumentSpec(name=MESSAGE, kind=MESSAGE, ctype=MESSAGE),
    )


def _axis_kind(name: str) -> str:
    return WORKSPACE_BYTES if name == WORKSPACE_BYTES else "axis"


def _parameter(spec: JobSpec, argument: ArgumentSpec) -> Parameter:
    if argument.ctype != "pointer":
        return Parameter(ctype=argument.ctype, value=argument.value)
    tensor = _tensors(spec)[argument.name]
    return Parameter(ctype="pointer", dtype=tensor.dtype, shape=tensor.shape or ())


def _axes(spec: JobSpec) -> dict[str, None]:
    """The axes of the tensors that are passed, each once, in order."""
    tensors = _tensors(spec)
    passed = (tensors[a.name] for a in spec.arguments if a.ctype == "pointer")
    return dict.fromkeys(axis for tensor in passed for axis in tensor.shape or ())


def _tensors(spec: JobSpec) -> Mapping[str, TensorSpec]:
    return {WORKSPACE: _BYTES, **{t.name: t for t in (*spec.outputs, *spec.inputs)}}
