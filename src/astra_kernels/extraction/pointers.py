"""Shapes of bare pointers, whose sizes a C signature gives as integers: attempts, from the most likely one on."""

from __future__ import annotations

from collections.abc import Iterator

from astra_kernels.extraction.shapes import Shapes
from astra_kernels.extraction.signature import Slot

_VECTORS = ("weight", "gamma", "beta", "bias")
_ROWWISE = ("scale", "sum", "max", "lse", "mean")


def pointer_shapes(given: tuple[Slot, ...]) -> Iterator[Shapes]:
    """Shapes to try: every tensor as large as all sizes together, then inputs twice as wide, then vectors and rows.

    A shape that is too small is seen by the simulated device, and one that is too large by what is never written.
    """
    axes = [s.name for s in given if s.role == "integer" and not _is_choice(s.name)]
    tensors = [s for s in given if s.role == "tensor"]
    if not axes:
        yield _shapes({s.name: ("elements",) for s in tensors}, ["elements"], wide=False)
        return
    full = tuple(axes[:3])
    vectors = {s.name: full[-1:] for s in tensors if _has(s.name, _VECTORS) and len(full) > 1}
    plain = {s.name: vectors.get(s.name, full) for s in tensors}
    yield _shapes(plain, axes, wide=False)
    wide = (*full[:-1], f"two_{full[-1]}")
    inputs = [s.name for s in tensors if not s.written]
    yield _shapes(
        {n: wide if n in inputs and n not in vectors else f for n, f in plain.items()},
        axes,
        wide=True,
    )
    if len(full) > 1:
        rows = {s.name: full[:1] for s in tensors if s.written}
        yield _shapes({**plain, **rows}, axes, wide=False)
        yield _shapes(
            {**plain, **{s.name: full[-1:] for s in tensors if s.written}}, axes, wide=False
        )
    single = {s.name: ("one",) for s in tensors if s.written}
    yield _shapes({**plain, **single}, axes, wide=False, one=True)


def _is_choice(name: str) -> bool:
    return any(word in name for word in ("stride", "flag", "mode", "offset"))


def _has(name: str, known: tuple[str, ...]) -> bool:
    return any(word in name.lower() for word in known)


def _shapes(
    shapes: dict[str, tuple[str, ...]], axes: list[str], *, wide: bool, one: bool = False
) -> Shapes:
    made: dict[str, dict[str, object]] = {a: {"type": "var"} for a in axes}
    if wide:
        last = axes[:3][-1]
        made[f"two_{last}"] = {"type": "expr", "expression": f"2 * {last}"}
    if one:
        made["one"] = {"type": "const", "value": 1}
    said = ", ".join(f"{n} is [{', '.join(s)}]" for n, s in shapes.items())
    return Shapes(shapes, made, [f"shapes: {said}"])
