"""A drafted problem before it is written, and how one is made of a known kind of operator."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from astra_kernels.extraction.finding import Operator
from astra_kernels.extraction.kinds import KINDS, Kind, Tensor
from astra_kernels.extraction.signature import Slot, slots

REFERENCES = Path(__file__).parent / "references"
ELEMENTS = ("float16", "bfloat16", "float32")
OWN_ORACLE = " There is no reference: the original kernel is its own oracle."
_TOLERANCE = {"max_atol": 1e-2, "max_rtol": 1e-2}
_SYNONYMS = {
    "tokens": ("tokens", "num_tokens", "rows", "batch_size", "seq_len", "m", "nnz", "batch"),
    "hidden": ("hidden", "hidden_size", "d", "dim", "cols", "columns", "n"),
    "heads": ("heads", "num_heads"),
    "head_dim": ("head_dim", "head_size"),
    "elements": ("elements", "num_elements", "n", "size", "numel"),
    "batch": ("batch", "batch_size"),
    "vocab": ("vocab", "vocab_size"),
}
Json = dict[str, object]


@dataclass
class Draft:
    """A problem in the making; `reference` is None where the kernel is its own oracle."""

    op_type: str
    description: str
    axes: dict[str, Json]
    inputs: dict[str, Json]
    outputs: dict[str, Json]
    arguments: list[Json | str]
    sizes: tuple[dict[str, int], ...]
    untimed: int
    scalars: dict[str, float] = field(default_factory=dict)
    reference: str | None = None
    kind: str = ""
    """Which reference that is, for readers."""
    custom: bool = False
    constraints: tuple[str, ...] = ()
    workspace: str = ""
    tolerance: Json = field(default_factory=lambda: dict(_TOLERANCE))
    guesses: list[str] = field(default_factory=list)
    """What was assumed, and should be looked at."""


def from_kind(operator: Operator, dtype: str) -> Draft | None:
    """The draft of an operator whose kind is known; None where none fits."""
    given = slots(operator)
    for kind in KINDS:
        if kind.fits(operator.symbol) or kind.fits(operator.function.name):
            draft = _Drafting(kind, operator, kind.element or dtype).draft(given)
            if draft is not None:
                return draft
    return None


class _Drafting:
    """One attempt to read an operator's parameters as those of a kind."""

    def __init__(self, kind: Kind, operator: Operator, dtype: str) -> None:
        self._kind, self._operator, self._dtype = kind, operator, dtype
        self._names: dict[str, str] = {}
        """The parameter by role."""
        self._scalars: dict[str, str] = {}

    def draft(self, given: tuple[Slot, ...]) -> Draft | None:
        arguments: list[Json | str] = []
        for slot in given:
            argument = self._argument(slot)
            if argument is None:
                return None
            arguments.append(argument)
        kind = self._kind
        if self._names.keys() != kind.tensors.keys() or self._scalars.keys() != kind.scalars.keys():
            return None
        inputs: dict[str, Json] = {
            self._names[r]: self._spec(t) for r, t in kind.tensors.items() if t.input
        }
        for role, name in self._scalars.items():
            inputs[name] = {"shape": None, "dtype": self._width(given, name)}
            del role
        return Draft(
            op_type=kind.op_type,
            description=kind.says,
            axes={name: dict(axis) for name, axis in kind.axes.items()},  # type: ignore[call-overload]
            inputs=inputs,
            outputs=self._outputs(),
            arguments=arguments,
            sizes=kind.sizes,
            untimed=kind.untimed,
            scalars={self._scalars[r]: v for r, v in kind.scalars.items()},
            reference=self._reference(inputs),
            kind=f"Astra's for {kind.name}",
            custom=self._makes_inputs(),
            constraints=kind.constraints,
            workspace=kind.workspace[1] if kind.workspace else "",
        )

    def _argument(self, slot: Slot) -> Json | str | None:
        kind = self._kind
        if kind.workspace is not None and slot.name == kind.workspace[0]:
            return "workspace"
        if slot.name in kind.constants:
            value = kind.constants[slot.name]
            ctype = {bool: "bool", str: "string", int: "int64", float: "float64"}[type(value)]
            return {"name": slot.name, "ctype": ctype, "value": value}
        if slot.role == "tensor":
            role = next((r for r, t in kind.tensors.items() if slot.name in t.names), None)
            if role is None or role in self._names:
                return None
            self._names[role] = slot.name
            return slot.name
        if slot.role == "optional":
            return {"name": slot.name, "ctype": "none"}
        if slot.role == "float":
            role = next((r for r in kind.scalars if slot.name.startswith(r)), None)
            if role is None:
                return None
            self._scalars[role] = slot.name
            return {"name": slot.name, "ctype": slot.dtype}
        if slot.role == "bool":
            return {"name": slot.name, "ctype": "bool", "value": False}
        if slot.role == "integer":
            axis = axis_called(slot.name, tuple(kind.axes))
            return None if axis is None else {"name": axis, "ctype": slot.dtype}
        return "stream" if slot.role == "stream" else None

    def _width(self, given: tuple[Slot, ...], name: str) -> str:
        return next(s.dtype for s in given if s.name == name)

    def _spec(self, tensor: Tensor) -> Json:
        return {"shape": list(tensor.shape), "dtype": tensor.dtype or self._dtype}

    def _outputs(self) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for role, tensor in self._kind.tensors.items():
            name = self._names[role]
            if tensor.output and tensor.input:
                found[f"{name}_out"] = {**self._spec(tensor), "in_place_of": name}
            elif tensor.output:
                found[name] = self._spec(tensor)
        return found

    def _makes_inputs(self) -> bool:
        return "\ndef inputs(" in self._text()

    def _text(self) -> str:
        return (REFERENCES / f"{self._kind.reference}.py").read_text(encoding="utf-8")

    def _reference(self, inputs: dict[str, Json]) -> str:
        """The kind's reference, with the functions that a problem needs around it."""
        roles = {**self._names, **self._scalars}
        passed = ", ".join(f"{role}={roles[role]}" for role in roles if roles[role] in inputs)
        option = self._kind.option(self._operator.symbol)
        chosen = "".join(f", {name}={value!r}" for name, value in option.items())
        constants = self._kind.constants
        chosen += f", top_k={constants['top_k_val']}" if "top_k_val" in constants else ""
        names = ", ".join(inputs)
        types = ", ".join(repr(str(o["dtype"])) for o in self._outputs().values())
        return _AROUND.format(
            text=self._text().rstrip(),
            names=names,
            passed=passed,
            chosen=chosen,
            types=f"({types},)",
        ) + (self._input_maker(inputs) if self._makes_inputs() else "")

    def _input_maker(self, inputs: dict[str, Json]) -> str:
        drawn = {
            n: ([*s["shape"]], s["dtype"])  # type: ignore[misc]
            for n, s in inputs.items()
            if s["shape"] is not None
        }
        by_role = {r: n for r, n in self._names.items() if n in inputs}
        scalars = {self._scalars[r]: v for r, v in self._kind.scalars.items()}
        return _MAKER.format(drawn=drawn, roles=by_role, scalars=scalars)


def axis_called(name: str, axes: tuple[str, ...]) -> str | None:
    """The axis that an integer parameter means by its name."""
    return next((a for a in axes if name == a or name in _SYNONYMS.get(a, ())), None)


_AROUND = '''{text}


_TYPES = {types}


def _element(name):
    if name in ("float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool"):
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))


def run({names}):
    """In float32, rounded once."""
    found = compute({passed}, working=np.float32{chosen})
    return tuple(x.astype(_element(t)) for x, t in zip(found, _TYPES, strict=True))


def reference_fp64({names}):
    """In float64 throughout."""
    return compute({passed}, working=np.float64{chosen})
'''

_MAKER = '''

_DRAWN = {drawn!r}
_ROLES = {roles!r}
_SCALARS = {scalars!r}


def make_inputs(axes, device):
    """What has to fit together from `inputs`, everything else normal."""
    random = np.random.default_rng(np.random.randint(1 << 31))
    made = {{_ROLES[role]: value for role, value in inputs(axes, random).items()}}
    for name, (shape, dtype) in _DRAWN.items():
        if name not in made:
            values = random.standard_normal([axes[a] for a in shape], dtype=np.float32)
            made[name] = values.astype(_element(dtype))
    return {{**made, **_SCALARS}}
'''
