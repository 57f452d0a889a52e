"""What is computed, and how it is called."""

from __future__ import annotations

from collections.abc import Iterable

from astra_kernels.agents.llm.briefing.tables import number, table
from astra_kernels.agents.llm.entry_point import signature_text
from astra_kernels.agents.llm.replies.fences import fenced
from astra_kernels.records.definition import (
    Axis,
    AxisConst,
    AxisVar,
    Definition,
    OutputSpec,
    TensorSpec,
)
from astra_kernels.records.problem import Problem
from astra_kernels.records.solution import Argument
from astra_kernels.records.workload import (
    CustomInput,
    InputSource,
    RandomInput,
    SafetensorsInput,
    Workload,
)

_MOST_REFERENCE = 20_000


def problem_text(problem: Problem) -> str:
    """Definition, reference and signature."""
    definition = problem.definition
    signature = fenced(signature_text(problem) + ";\n", "cuda")
    parts = [
        f"Operator `{definition.name}`."
        + (f" {definition.description}" if definition.description else ""),
        "Axes:\n" + "\n".join(f"- `{n}`: {_axis(a)}" for n, a in definition.axes.items()),
        "Inputs:\n" + "\n".join(f"- `{n}`: {_tensor(t)}" for n, t in definition.inputs.items()),
        "Outputs:\n" + "\n".join(f"- `{n}`: {_output(o)}" for n, o in definition.outputs.items()),
        _rules(definition),
        f"Entry point, in `{problem.spec.entry_file}`:\n{signature}" + _arguments(problem),
        "Reference, in Python (arrays have the exact element types; it says what is right, not how it is to be done):\n"
        + fenced(_reference(problem), "python"),
    ]
    return "\n\n".join(part.strip() for part in parts if part)


def workloads_text(workloads: Iterable[Workload]) -> str:
    """Sizes and values of workloads that everybody knows."""
    rows = [
        (
            w.uuid,
            ", ".join(f"{n}={size}" for n, size in w.axes.items()),
            ", ".join(f"{n}: {_source(s)}" for n, s in w.inputs.items()),
            "timed" if w.timed else "checked only",
        )
        for w in workloads
    ]
    return table(("workload", "sizes", "values", "use"), rows)


def _axis(axis: Axis) -> str:
    if isinstance(axis, AxisConst):
        text = f"always {axis.value}"
    elif isinstance(axis, AxisVar):
        domain = axis.domain
        if domain is None:
            text = "any size"
        else:
            upper = f"to {domain.max}" if domain.max is not None else "upwards"
            step = f", multiples of {domain.multiple_of}" if domain.multiple_of > 1 else ""
            text = f"any size from {domain.min} {upper}{step}"
    else:
        text = f"`{axis.expression}`"
    return text + (f". {axis.description}" if axis.description else "")


def _tensor(spec: TensorSpec) -> str:
    shape = "scalar" if spec.shape is None else "[" + ", ".join(spec.shape) + "]"
    return f"{spec.dtype} {shape}" + (f". {spec.description}" if spec.description else "")


def _output(spec: OutputSpec) -> str:
    place = (
        f", written in place of input `{spec.in_place_of}`; it has no parameter of its own"
        if spec.in_place_of
        else ""
    )
    return f"{_tensor(spec)} (compared: {spec.comparison}{place})"


def _rules(definition: Definition) -> str:
    lines = [f"Always true: `{constraint}`." for constraint in definition.constraints]
    if definition.tolerance is not None:
        t = definition.tolerance
        lines.append(
            f"Tolerance: |got - want| <= {t.max_atol:g} + {t.max_rtol:g} * |want| "
            f"for at least {t.required_matched_ratio:.4g} of the elements."
        )
    if definition.bytes:
        lines.append(f"Bytes that have to move through device memory: `{definition.bytes}`.")
    if definition.flops:
        lines.append(f"Floating-point operations: `{definition.flops}`.")
    return "\n".join(lines)


def _arguments(problem: Problem) -> str:
    listed = [_argument(a) for a in problem.spec.resolved_arguments(problem.definition)]
    text = "It is called with, in this order: " + ", ".join(listed) + "."
    if problem.spec.workspace is not None:
        text += f" `workspace` is scratch device memory of `{problem.spec.workspace.bytes}` bytes."
    flags = problem.spec.compile_options.cuda_cflags
    return text + (f" Built with nvcc flags: {' '.join(flags)}." if flags else "")


def _argument(argument: Argument) -> str:
    if argument.ctype == "none":
        return f"{argument.name} (not given)"
    constant = "" if argument.value is None else f", always {argument.value!r}"
    return f"{argument.name} ({argument.ctype}{constant})"


def _reference(problem: Problem) -> str:
    text = problem.reference
    if len(text) <= _MOST_REFERENCE:
        return text
    return text[:_MOST_REFERENCE] + "\n# ... the rest is left out here\n"


def _source(source: InputSource) -> str:
    if isinstance(source, RandomInput):
        return source.distribution or "random"
    if isinstance(source, CustomInput):
        return "made by the problem's own function"
    if isinstance(source, SafetensorsInput):
        return "from a file"
    return number(float(source.value))
