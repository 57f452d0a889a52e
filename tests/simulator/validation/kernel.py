"""What a kernel of the corpus is, and the arguments that several of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.simulator.validation.point import Array, Point, out

Arguments = tuple[Array | int | float, ...]
Shape = Mapping[str, int]


@dataclass(frozen=True)
class Kernel:
    """A launcher and its ways.

    Attributes:
        name: The launcher's symbol.
        source: Stem of the .cu file.
        arguments: Those of a shape.
        checked: The shape whose outputs and counters are compared; the block is `blocks[0]`.
        timed: Shapes that are timed with every way and every block.
        ways: Names of the techniques, in the launcher's order.
        blocks: Threads of a block.
        ulps: See `Point.ulps`; a mapping has those of ways, and none for the others.
        floor: See `Point.floor`.
    """

    name: str
    source: str
    arguments: Callable[..., Arguments]
    checked: Shape
    timed: tuple[Shape, ...]
    ways: tuple[str, ...]
    blocks: tuple[int, ...] = (256, 64, 1024)
    ulps: float | Mapping[str, float] = 0.0
    floor: float = 0.0

    def points(self, shape: Shape, blocks: tuple[int, ...]) -> list[Point]:
        """Every way with every block."""
        words = ",".join(f"{axis}={size}" for axis, size in shape.items())
        arguments = self.arguments(**shape)
        return [
            Point(
                kernel=self.name,
                source=self.source,
                shape=words,
                way=way,
                way_index=index,
                block=block,
                arguments=arguments,
                ulps=self.ulps if isinstance(self.ulps, (int, float)) else self.ulps.get(way, 0.0),
                floor=self.floor,
            )
            for index, way in enumerate(self.ways)
            for block in blocks
        ]


def flat(dtype: str, *inputs: str, fill: str = "symmetric") -> Callable[..., Arguments]:
    """An output and inputs of the same size, and the size."""
    return lambda n: (out("y", dtype, n), *(Array(x, dtype, n, fill) for x in inputs), n)


def rows_of(dtype: str, *vectors: str) -> Callable[..., Arguments]:
    """An output and an input of rows, and vectors as long as a row."""
    return lambda rows, width: (
        out("y", dtype, rows * width),
        Array("x", dtype, rows * width),
        *(Array(v, dtype, width) for v in vectors),
        rows,
        width,
    )


def of_rows(dtype: str, each: int = 1) -> Callable[..., Arguments]:
    """`each` results a row."""
    return lambda rows, width: (
        out("y", dtype, rows * each),
        Array("x", "f32", rows * width),
        rows,
        width,
    )


def rope(tokens: int, heads: int, dim: int) -> Arguments:
    """Turned in place."""
    angles = tokens * dim // 2
    return (
        Array("x", "f16", tokens * heads * dim, output=True),
        Array("cosine", "f32", angles, "cosine"),
        Array("sine", "f32", angles, "sine"),
        tokens,
        heads,
        dim,
    )


def merge(n: int, heads: int, dim: int) -> Arguments:
    """Two attention states and the merged one."""
    values, sums = n * heads * dim, n * heads
    pair = (Array("va", "f16", values), Array("sa", "f32", sums), Array("vb", "f16", values))
    results = (out("v", "f16", values), out("lse", "f32", sums, 8))
    return (*pair, Array("sb", "f32", sums), *results, n, heads, dim)


def fused_norm(n: int, d: int) -> Arguments:
    """Both updated in place."""
    x, residual = (Array(name, "f16", n * d, output=True) for name in ("x", "residual"))
    return (x, residual, Array("w", "f16", d, "positive"), n, d, 1e-5)


def matrix(rows: int, columns: int) -> Arguments:
    """A matrix in, one out."""
    return (
        out("y", "f32", rows * columns),
        Array("x", "f32", rows * columns),
        rows,
        columns,
    )
