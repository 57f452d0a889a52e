"""Draws hidden workloads: sizes and values that nobody saw, from a definition, its public workloads and a secret seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from astra_kernels.records.definition import AxisDomain, AxisVar
from astra_kernels.records.dtypes import is_floating
from astra_kernels.records.expressions import evaluate, names_in
from astra_kernels.records.problem import Problem
from astra_kernels.records.sizes import contiguous_axes, total_elements
from astra_kernels.records.workload import (
    CustomInput,
    Distribution,
    InputSource,
    RandomInput,
    SafetensorsInput,
    ScalarInput,
    Workload,
)

MOST_ELEMENTS = 1 << 17
"""Of all tensors of a workload; each is judged with every candidate."""
LARGE_ELEMENTS, LARGE_ELEMENTS_SIMULATED = 1 << 22, 1 << 20
_ATTEMPTS = 200
_OUTER, _INNER = 64, 16384
"""The largest sizes of ordinary hidden workloads, where the domain goes further."""
_RARE = 0.5
_SPACIOUS = 0.5
"""How often a size is drawn from the upper half of the logarithmic scale, where loops take several turns."""
_SCALE = 2.0
"""Floating scalars are a public value times 2 to a power between minus this and this."""
_VALUES: Mapping[Distribution, str] = {
    "normal": "normal values",
    "zeros": "zeros",
    "large": "large magnitudes",
    "small": "small magnitudes",
    "denormal": "denormals",
    "infinities": "infinities",
    "ties": "ties",
    "sorted": "sorted values",
    "constant_rows": "constant rows",
    "scaled_rows": "rows of many magnitudes",
    "extremes": "extremes and negative infinity",
    "uniform": "uniform values",
}


@dataclass(frozen=True)
class HiddenWorkload:
    """One hidden workload."""

    workload: Workload
    seed: int
    kind: str
    """In words: this is all that a search is told."""
    rare_made_common: bool = False
    """Whether what is rare in the problem's own values becomes common where it is infinite."""


def draw_hidden(problem: Problem, secret: int, *, simulated: bool) -> tuple[HiddenWorkload, ...]:
    """About twelve workloads, the same for the same secret.

    Where the definition gives no domain for an axis, sizes lie around the public ones, and the baseline decides
    whether they count. None are drawn where every public workload takes an input from a file.
    """
    templates = [
        w
        for w in problem.workloads
        if not any(isinstance(s, SafetensorsInput) for s in w.inputs.values())
    ]
    if not templates:
        return ()
    draw = _Draw(problem, templates, random.Random(secret), simulated)
    prefix = "hidden"
    while any(w.uuid.startswith(prefix) for w in problem.workloads):
        prefix += "'"
    found: list[HiddenWorkload] = []
    for shape, values in draw.pairs():
        made = draw.one(f"{prefix}-{len(found) + 1:02d}", shape, values)
        if made is not None:
            found.append(made)
    return tuple(found)


@dataclass(frozen=True)
class _Shape:
    """A kind of size: a test that it passes, and numbers to try."""

    words: str
    holds: Callable[[int], bool]
    propose: Callable[[random.Random, int, int], int]
    """From a smallest and a largest number of steps."""


def _is_prime(size: int) -> bool:
    return size > 1 and all(size % d for d in range(2, math.isqrt(size) + 1))


def _any(draw: random.Random, low: int, high: int) -> int:
    """Log-uniform, so that small sizes are as likely as large ones."""
    if high <= low:
        return low
    return min(high, max(low, round(math.exp(draw.uniform(math.log(low), math.log(high + 0.5))))))


def _beside_power(draw: random.Random, low: int, high: int) -> int:
    return int(2 ** round(math.log2(_any(draw, low, high)))) + draw.choice((-1, 1))


def _power(draw: random.Random, low: int, high: int) -> int:
    return int(2 ** round(math.log2(_any(draw, low, high))))


_SHAPES = {
    "one": _Shape("size 1", lambda n: n == 1, lambda draw, low, high: 1),
    "prime": _Shape("prime size", _is_prime, _any),
    "odd": _Shape(
        "odd size", lambda n: n % 2 == 1, lambda draw, low, high: _any(draw, low, high) | 1
    ),
    "scalar": _Shape("size that no vector divides", lambda n: n % 8 != 0, _any),
    "half vectors": _Shape(
        "size that only narrow vectors divide",
        lambda n: n % 2 == 0 and n % 8 != 0,
        lambda draw, low, high: 2 * (_any(draw, low, high) // 2 | 1),
    ),
    "beside": _Shape(
        "size one off a power of two",
        lambda n: n > 2 and any((n + d) & (n + d - 1) == 0 for d in (-1, 1)),
        _beside_power,
    ),
    "power": _Shape("power of two", lambda n: n > 1 and n & (n - 1) == 0, _power),
    "vectors": _Shape(
        "size that vectors divide",
        lambda n: n % 8 == 0,
        lambda draw, low, high: _any(draw, low, high) // 8 * 8,
    ),
}
_ORDER = (
    "one",
    "prime",
    "prime",
    "odd",
    "scalar",
    "half vectors",
    "beside",
    "beside",
    "power",
    "vectors",
)
_TELLING: tuple[Distribution, ...] = ("normal", "uniform", "scaled_rows")
"""Values in which every element counts: the one workload of a far size gets such."""
_LARGE, _FAR = "large", "far"
"""Many elements; and one contiguous axis in the upper half of its domain, where a kernel's own limits may lie."""


class _Draw:
    """One drawing: the definition, and the state of chance."""

    def __init__(
        self, problem: Problem, templates: list[Workload], draw: random.Random, simulated: bool
    ) -> None:
        self._problem = problem
        self._definition = problem.definition
        self._templates = templates
        self._draw = draw
        self._large = LARGE_ELEMENTS_SIMULATED if simulated else LARGE_ELEMENTS
        self._inner = contiguous_axes(problem.definition)

    def pairs(self) -> list[tuple[str, Distribution]]:
        """Each kind of size with a kind of value that chance gives it."""
        shapes, values = [*_ORDER, _FAR, _LARGE], list(_VALUES)
        self._draw.shuffle(values)
        far, telling = shapes.index(_FAR), self._draw.choice(_TELLING)
        other = values.index(telling)
        values[far], values[other] = telling, values[far]
        return list(zip(shapes, values, strict=True))

    def one(self, uuid: str, shape: str, values: Distribution) -> HiddenWorkload | None:
        """One workload, or None where chance finds no legal sizes."""
        template = self._draw.choice(self._templates)
        inputs, words = self._inputs(template, values)
        found = self._sizes(shape, inputs)
        if found is None:
            return None
        sizes, size_words = found
        workload = Workload(
            uuid=uuid, axes=sizes, inputs=inputs, tolerance=template.tolerance, timed=False
        )
        custom = any(isinstance(s, CustomInput) for s in inputs.values())
        rare = custom and self._draw.random() < _RARE
        kind = f"{size_words}, {words}{', rare ones made common' if rare else ''}"
        return HiddenWorkload(workload, self._draw.getrandbits(48), kind, rare)

    def _sizes(
        self, shape: str, inputs: Mapping[str, InputSource]
    ) -> tuple[dict[str, int], str] | None:
        """Legal sizes of a kind, or of any kind where that one is impossible, with words for what they are."""
        names = list(self._definition.var_axes)
        for attempt in range(2 * _ATTEMPTS):
            kind = shape if attempt < _ATTEMPTS else "any"
            outer = 0 if shape == _FAR and self._inner else 1
            weights = [3 if name in self._inner else outer for name in names]
            focus = self._draw.choices(names, weights)[0] if names else ""
            sizes = {n: self._size(n, kind if n == focus else "any", kind == _LARGE) for n in names}
            limit = self._large if kind in (_LARGE, _FAR) else MOST_ELEMENTS
            elements = self._legal(sizes, inputs)
            if elements is None or elements > limit or (kind == _LARGE and elements < limit // 4):
                continue
            if kind == _LARGE:
                return sizes, "large sizes"
            if kind == _FAR:
                where = "" if focus in self._inner else " of an outer axis"
                return sizes, f"size in the upper half of its domain{where}"
            if kind == "any" or _SHAPES[kind].holds(sizes.get(focus, 1)):
                return sizes, self._words(kind, focus, sizes)
        return self._as_given(inputs)

    def _as_given(self, inputs: Mapping[str, InputSource]) -> tuple[dict[str, int], str] | None:
        """Sizes of a public workload that is small enough to be judged often."""
        limit = self._large
        for template in self._draw.sample(self._templates, len(self._templates)):
            elements = self._legal(template.axes, inputs)
            if elements is not None and elements <= limit:
                return dict(template.axes), "sizes of a public workload"
        return None

    def _words(self, kind: str, focus: str, sizes: Mapping[str, int]) -> str:
        if not focus:
            return "fixed sizes"
        size = sizes[focus]
        known = [_SHAPES[kind]] if kind in _SHAPES else []
        words = next(s.words for s in (*known, *_SHAPES.values()) if s.holds(size))
        return words if focus in self._inner else f"{words} of an outer axis"

    def _size(self, name: str, kind: str, large: bool) -> int:
        """A size for one axis, inside its domain, and of the kind where the domain has such."""
        axis = self._definition.var_axes[name]
        low, high, step = self._range(name, axis)
        if kind == _FAR:
            return step * self._draw.randint(max(low, high // 2), high)
        if not large:
            high = max(low, min(high, (_INNER if name in self._inner else _OUTER) // step))
        if self._draw.random() < _SPACIOUS:
            low = max(low, math.isqrt(high))
        if kind in _SHAPES:
            wanted = [
                _SHAPES[kind].propose(self._draw, max(1, low * step), high * step) for _ in range(8)
            ]
            for size in wanted:
                if _SHAPES[kind].holds(size) and size % step == 0 and low <= size // step <= high:
                    return size
        return step * _any(self._draw, low, high)

    def _range(self, name: str, axis: AxisVar) -> tuple[int, int, int]:
        """The smallest and largest number of steps, and the step: from the domain, or around the public sizes."""
        public = [w.axes[name] for w in self._templates]
        domain = axis.domain
        if domain is None:
            domain = AxisDomain(min=1, max=max(1, 2 * max(public)))
            step = math.gcd(*public)
            if step > 1 and self._draw.random() < 0.5:
                domain = AxisDomain(min=step, max=2 * max(public), multiple_of=step)
        step = domain.multiple_of
        low = max(1, -(-domain.min // step))
        most = domain.max if domain.max is not None else max(2 * max(public), low * step)
        return low, max(low, most // step), step

    def _legal(self, sizes: Mapping[str, int], inputs: Mapping[str, InputSource]) -> int | None:
        """Elements of all tensors, or None where the definition forbids the sizes."""
        definition = self._definition
        try:
            axes = definition.resolve_axes(dict(sizes))
            names = axes | {n: s.value for n, s in inputs.items() if isinstance(s, ScalarInput)}
            held = all(
                evaluate(c, names) for c in definition.constraints if names_in(c) <= names.keys()
            )
        except ValueError:
            return None
        return total_elements(definition, axes) if held else None

    def _inputs(
        self, template: Workload, values: Distribution
    ) -> tuple[dict[str, InputSource], str]:
        """Sources with the kind of value in some of the inputs, and words for it."""
        if any(isinstance(s, CustomInput) for s in template.inputs.values()):
            return dict(template.inputs), "the problem's own values"
        free = [n for n in template.inputs if self._is_free(n)]
        touched = [n for n in free if self._draw.random() < self._share(n)]
        main = [n for n in free if self._rank(n) == max(map(self._rank, free))]
        if main and not set(main) & set(touched):
            touched.append(self._draw.choice(main))
        inputs = {
            name: self._source(name, source, values if name in touched else None)
            for name, source in template.inputs.items()
        }
        return inputs, _VALUES[values] if touched else "values as in public workloads"

    def _is_free(self, name: str) -> bool:
        """Whether any value is legal: a floating tensor that some public workload fills without a given distribution."""
        spec = self._definition.inputs[name]
        if spec.shape is None or not is_floating(spec.dtype):
            return False
        sources = [w.inputs[name] for w in self._templates]
        return any(isinstance(s, RandomInput) and s.distribution is None for s in sources)

    def _share(self, name: str) -> float:
        """How often a tensor gets the kind of value: weights, of fewer dimensions, mostly stay ordinary."""
        return 0.8 if self._rank(name) == max(map(self._rank, self._definition.inputs)) else 0.25

    def _rank(self, name: str) -> int:
        return len(self._definition.inputs[name].shape or ())

    def _source(self, name: str, source: InputSource, values: Distribution | None) -> InputSource:
        if isinstance(source, ScalarInput):
            return ScalarInput(value=self._scalar(name))
        if values is not None:
            return RandomInput(distribution=values)
        return (
            self._draw.choice([w.inputs[name] for w in self._templates])
            if not self._is_free(name)
            else RandomInput()
        )

    def _scalar(self, name: str) -> bool | int | float:
        """A public value, or for floats one around it; what lies in [-1, 1] stays there, since it may be a probability."""
        public = [s.value for w in self._templates if isinstance(s := w.inputs[name], ScalarInput)]
        value = self._draw.choice(public)
        if not is_floating(self._definition.inputs[name].dtype) or isinstance(value, bool):
            return value
        scaled = float(value * math.pow(2.0, self._draw.uniform(-_SCALE, _SCALE)))
        return max(-1.0, min(1.0, scaled)) if abs(value) <= 1 else scaled
