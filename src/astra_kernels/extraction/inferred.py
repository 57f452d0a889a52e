"""The draft of an operator that is of no known kind: shapes, sizes and values guessed, the kernel its own oracle."""

from __future__ import annotations

import re
from collections.abc import Iterable

from astra_kernels.errors import UserError
from astra_kernels.extraction.draft import OWN_ORACLE, Draft, Json, axis_called
from astra_kernels.extraction.finding import Operator
from astra_kernels.extraction.project import Project
from astra_kernels.extraction.shapes import Shapes, shapes_of
from astra_kernels.extraction.signature import Slot, slots
from astra_kernels.extraction.sizes import stated_sizes, usual_sizes

_VALUES = {"eps": 1e-6, "epsilon": 1e-6, "theta": 1e4, "base": 1e4}
_LITERAL = re.compile(r'"([^"]{1,40})"')


def inferred(operator: Operator, dtype: str, project: Project | None) -> Draft:
    """The draft, with everything that was guessed said.

    Raises:
        UserError: a parameter is of a type that problems cannot pass, or nothing is written.
    """
    given = slots(operator)
    tensors = [s for s in given if s.role == "tensor"]
    names = tuple(s.name for s in tensors)
    shapes = shapes_of(operator.function.text, names, frozenset(_written(tensors)))
    return draft_of(operator, shapes, dtype, project)


def draft_of(operator: Operator, shapes: Shapes, dtype: str, project: Project | None) -> Draft:
    """The draft of an operator whose shapes are known or guessed.

    Raises:
        UserError: as `inferred`.
    """
    given = slots(operator)
    bad = next((s for s in given if s.role == "unknown"), None)
    if bad is not None:
        raise UserError(
            f"{operator.function.signature}: {bad.name!r} is of a type that problems cannot pass"
        )
    tensors = [s for s in given if s.role == "tensor"]
    written = _written(tensors)
    if not written:
        raise UserError(f"{operator.function.signature}: no parameter is written")
    guesses = [*shapes.guesses]
    if any(s.written is None for s in tensors):
        guesses.append(f"taken for outputs by their names: {', '.join(written)}")
    in_place = [name for name in written if not pure_output(name)]
    if in_place:
        guesses.append(f"taken to be changed in place, by their names: {', '.join(in_place)}")
    inputs, outputs = _tensors(tensors, written, shapes, dtype)
    arguments, scalars = _arguments(given, operator, shapes, guesses)
    inputs |= {n: {"shape": None, "dtype": _scalar_type(given, n)} for n in scalars}
    stated = stated_sizes(project, operator.symbol) if project is not None else {}
    variable = [n for n, a in shapes.axes.items() if a["type"] == "var"]
    sizes, source = usual_sizes(variable, stated)
    guesses.append(f"sizes are {source}")
    return Draft(
        op_type="extracted",
        description=f"{operator.function.signature}.{OWN_ORACLE}",
        axes=shapes.axes,
        inputs=inputs,
        outputs=outputs,
        arguments=arguments,
        sizes=sizes,
        untimed=max(1, len(sizes) - 2),
        scalars=scalars,
        guesses=guesses,
    )


def _written(tensors: Iterable[Slot]) -> list[str]:
    """Outputs: what the types say; where they say nothing, what the names say, or else the first tensor."""
    sure = [s.name for s in tensors if s.written]
    return sure or [s.name for s in tensors if s.written is None][:1]


def _tensors(
    tensors: list[Slot], written: list[str], shapes: Shapes, dtype: str
) -> tuple[dict[str, Json], dict[str, Json]]:
    """A written tensor is an output of its own if its name says so, else it is changed in place."""
    inputs: dict[str, Json] = {}
    outputs: dict[str, Json] = {}
    for slot in tensors:
        spec: Json = {"shape": list(shapes.shapes[slot.name]), "dtype": slot.dtype or dtype}
        if slot.name not in written:
            inputs[slot.name] = spec
        elif pure_output(slot.name):
            outputs[slot.name] = spec
        else:
            inputs[slot.name] = spec
            outputs[f"{slot.name}_out"] = {**spec, "in_place_of": slot.name}
    return inputs, outputs


def pure_output(name: str) -> bool:
    """Whether a written tensor's name says that its earlier values do not matter."""
    return (
        re.search(r"(?:^|_)(?:out|output|outputs|result|dst|merged)(?:$|_)|^[yzc]$|renorm", name)
        is not None
    )


def _arguments(
    given: tuple[Slot, ...], operator: Operator, shapes: Shapes, guesses: list[str]
) -> tuple[list[Json | str], dict[str, float]]:
    arguments: list[Json | str] = []
    scalars: dict[str, float] = {}
    for slot in given:
        value: object = None
        if slot.role in ("tensor", "stream"):
            arguments.append(slot.name if slot.role == "tensor" else "stream")
        elif slot.role == "optional":
            arguments.append({"name": slot.name, "ctype": "none"})
            guesses.append(f"{slot.name} is not given")
        elif slot.role == "float":
            scalars[slot.name] = next((v for k, v in _VALUES.items() if k in slot.name), 1.0)
            arguments.append({"name": slot.name, "ctype": slot.dtype})
            guesses.append(f"{slot.name} is {scalars[slot.name]:g}")
        elif slot.name in shapes.axes or (axis := _axis(slot, shapes)) is not None:
            axis = slot.name if slot.name in shapes.axes else axis
            arguments.append({"name": axis, "ctype": slot.dtype})
        else:
            value = _default(slot)
            if slot.role == "string":
                value = next(iter(_LITERAL.findall(operator.function.text)), "")
            ctype = slot.dtype if slot.role == "integer" else slot.role
            arguments.append({"name": slot.name, "ctype": ctype, "value": value})
            guesses.append(f"{slot.name} is {value!r}")
    return arguments, scalars


def _default(slot: Slot) -> object:
    """The value of a parameter that is neither a size nor varied: the one that the source gives it, else a usual one."""
    if slot.role == "bool":
        return slot.default == "true"
    if slot.role == "integer":
        return int(slot.default) if slot.default.lstrip("-").isdigit() else 1
    return None


def _axis(slot: Slot, shapes: Shapes) -> str | None:
    return axis_called(slot.name, tuple(shapes.axes)) if slot.role == "integer" else None


def _scalar_type(given: tuple[Slot, ...], name: str) -> str:
    return next(s.dtype for s in given if s.name == name)
