"""Which lane holds which element of a `wmma` fragment.

PTX leaves it open. Here it is the layout of the `mma.sync` instructions that the fragment is made of, which
is also what machine code for compute_80 and later shows; fragments of f16 hold every element more than
once, so the registers after the first copy repeat it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from astra_kernels.simulator.lowering.matrices import parts_of
from astra_kernels.simulator.lowering.translate import Translator

_INTEGERS = ("s8", "u8")
SHAPES = {
    **dict.fromkeys(("f16", "bf16", *_INTEGERS), ("m16n16k16", "m32n8k16", "m8n32k16")),
    "tf32": ("m16n16k8",),
    "f64": ("m8n8k4",),
}
RESULTS = {"f16": ("f16", "f32"), "s8": ("s32",), "u8": ("s32",), "f64": ("f64",)}


@dataclass(frozen=True)
class Element:
    """Where a fragment's element is: line and place of lane 0, those of others follow from the lane."""

    line: int
    place: int


@dataclass(frozen=True)
class Shape:
    """A product of tiles, of which either A or B is several times as wide as an `mma.sync`'s.

    Attributes:
        m: Rows of A.
        n: Columns of B.
        k: Depth.
    """

    m: int
    n: int
    k: int

    @property
    def swapped(self) -> bool:
        """Whether the transposed product is computed: 8 by 32 as 32 by 8."""
        return (self.m, self.n) == (8, 32)

    @property
    def rows(self) -> int:
        """Of one tile."""
        return 8 if (self.m, self.n) == (8, 8) else 16

    @property
    def tall(self) -> int:
        """Tiles of the operand that takes the place of A."""
        return (self.n if self.swapped else self.m) // self.rows

    @property
    def flat(self) -> int:
        """Tiles of the operand that takes the place of B."""
        return (self.m if self.swapped else self.n) // 8


def shape_of(t: Translator, name: str, ptx_type: str) -> Shape:
    """The shape of a product whose factors have this type.

    Raises:
        UnsupportedPtx: There is no such product.
    """
    if name not in SHAPES.get(ptx_type, ()):
        t.refuse(f"matrices of `.{ptx_type}` in the shape `{name}` are not implemented")
    m, n, k = (int(number) for number in re.findall(r"\d+", name))
    return Shape(m, n, k)


def input_elements(shape: Shape, which: str, ptx_type: str) -> list[list[Element]]:
    """Registers of fragment A or B, each with its elements along k."""
    tall = (which == "a") != shape.swapped
    parts = parts_of(ptx_type)
    lines = shape.rows if tall else 8
    count = lines * shape.k // 32 // parts
    halves = 2 if lines == 16 else 1
    return [
        [
            Element(lines * tile + 8 * (index % halves), 4 * parts * (index // halves) + part)
            for part in range(parts)
        ]
        for tile in range(shape.tall if tall else shape.flat)
        for index in range(count)
    ]


def result_elements(shape: Shape, ptx_type: str) -> list[list[Element]]:
    """Registers of the accumulator; lines are rows of the product that is computed."""
    parts = parts_of(ptx_type)
    elements = [
        Element(shape.rows * tall + 8 * (index // 2), 8 * flat + index % 2)
        for tall in range(shape.tall)
        for flat in range(shape.flat)
        for index in range(shape.rows // 4)
    ]
    return [elements[start : start + parts] for start in range(0, len(elements), parts)]


def register_count(which: str, ptx_type: str, natural: int) -> int:
    """Registers that PTX has for a fragment, of which `natural` differ."""
    return 8 if which in "ab" and ptx_type == "f16" else natural
