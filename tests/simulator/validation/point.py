"""What a point of the corpus is: one call of a launcher, its inputs, and what may differ in its outputs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

# bfloat16 and fp8 are kept as their bits: NumPy alone has neither.
STORED = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.uint16, "e4m3": np.uint8,
    "i32": np.int32, "u32": np.uint32, "i8": np.int8, "u8": np.uint8,
}  # fmt: skip


@dataclass(frozen=True)
class Array:
    """A buffer of a call.

    Attributes:
        name: of the parameter.
        dtype: a key of `STORED`.
        count: elements.
        fill: `symmetric` (-2 to 2, roughly bell-shaped), `positive` (0.25 to 2), `bits` (any integer),
            `permutation`, `rows:<n>` (integers below n), `cosine`, `sine` (angles of rotations), `zero`.
        output: whether it is compared after the call.
        ulps: its own limit instead of the point's.
    """

    name: str
    dtype: str
    count: int
    fill: str = "symmetric"
    output: bool = False
    ulps: float | None = None

    @property
    def bytes(self) -> int:
        """Its size."""
        return self.count * np.dtype(STORED[self.dtype]).itemsize


def out(name: str, dtype: str, count: int, ulps: float | None = None) -> Array:
    """An output that holds zeros before the call."""
    return Array(name, dtype, count, "zero", output=True, ulps=ulps)


@dataclass(frozen=True)
class Point:
    """One call.

    Attributes:
        kernel: What it computes; points of a kernel and shape are variants of each other.
        source: Stem of the .cu file.
        shape: The sizes, such as `rows=8,width=1024`.
        way: The technique, by its name.
        way_index: The same as the launcher takes it.
        block: Threads of a block.
        arguments: What comes before (block, way, stream).
        ulps: How far outputs may be from the hardware's in units of the last place; 0 (bit for bit)
            where no instruction is approximate.
        floor: Units of the last place are those of this value where the hardware's is smaller: for
            instructions with an absolute error, and for sums that cancel.
    """

    kernel: str
    source: str
    shape: str
    way: str
    way_index: int
    block: int
    arguments: tuple[Array | int | float, ...] = field(repr=False)
    ulps: float = 0.0
    floor: float = 0.0

    @property
    def name(self) -> str:
        """Unique among all points."""
        return f"{self.kernel}/{self.shape}/{self.way},block={self.block}"

    @property
    def group(self) -> str:
        """The variants that it is compared with."""
        return f"{self.kernel}/{self.shape}"

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The buffers among the arguments."""
        return tuple(a for a in self.arguments if isinstance(a, Array))

    @property
    def outputs(self) -> tuple[Array, ...]:
        """The buffers that are compared."""
        return tuple(a for a in self.arrays if a.output)

    def inputs(self) -> list[np.ndarray]:
        """The buffers before the call: the same bytes on every machine."""
        return [filled(array, f"{self.group}/{array.name}") for array in self.arrays]


def filled(array: Array, seed: str) -> np.ndarray:
    """The contents of a buffer.

    Only raw words of PCG64 and exactly rounded operations go in: the streams of NumPy's distributions
    may change between versions, and its transcendental functions between processors.
    """
    stored = STORED[array.dtype]
    if array.fill == "zero":
        return np.zeros(array.count, stored)
    key = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "little")
    raw = np.random.PCG64(key).random_raw(array.count)
    if array.fill == "bits":
        return (raw & np.uint64(0xFFFFFFFF)).astype(np.uint32).astype(stored)
    if array.fill == "permutation":
        return np.argsort(raw, kind="stable").astype(stored)
    if array.fill.startswith("rows:"):
        return (raw % np.uint64(int(array.fill.removeprefix("rows:")))).astype(stored)
    return _encoded(_real(raw, array.fill), array.dtype)


def _real(raw: np.ndarray, fill: str) -> np.ndarray:
    first, second = ((raw >> np.uint64(shift) & np.uint64(0xFFFFFF)) for shift in (8, 40))
    u, v = (part.astype(np.float64) * 2.0**-24 for part in (first, second))
    if fill == "positive":
        return 0.25 + 1.75 * u
    if fill in ("cosine", "sine"):  # a point of the unit circle by its rational parametrisation
        t = 2 * u - 1
        return (1 - t * t) / (1 + t * t) if fill == "cosine" else 2 * t / (1 + t * t)
    assert fill == "symmetric", fill
    return 2 * (u + v - 1)


def _encoded(values: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "bf16":  # truncated
        return (values.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return values.astype(STORED[dtype])
