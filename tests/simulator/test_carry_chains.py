"""Additions and subtractions over several words, against Python's integers and the machine code's rule for the flag."""

import re

import numpy as np
import pytest

from tests.simulator.conftest import SOURCES, compile_library
from tests.simulator.handwritten import HEADER, disassembled, module_of, per_lane, run, words

MASK = 2**32 - 1
# name: the adder's second operand and the carry into it; the flag is the carry out, for all of them (IADD3 in machine
# code, where a subtraction adds the complement).
FIRST = {
    "add.cc.u32": lambda b: (b, 0),
    "sub.cc.u32": lambda b: (b ^ MASK, 1),
    "add.cc.s32": lambda b: (b, 0),
    "sub.cc.s32": lambda b: (b ^ MASK, 1),
}
SECOND = {
    "addc.u32": lambda b, flag: (b, flag),
    "subc.u32": lambda b, flag: (b ^ MASK, flag),
    "addc.cc.u32": lambda b, flag: (b, flag),
    "subc.cc.u32": lambda b, flag: (b ^ MASK, flag),
}


def interesting():
    """Words for which flags differ: equal ones, zero, all ones, random."""
    values = words(4, 32)
    values[:, 0:4] = 0
    values[:, 4:8] = MASK
    values[0, 8:12] = values[1, 8:12]
    values[2, 12:16] = values[3, 12:16]
    values[1, 16:20] = 0
    values[3, 20:24] = 0
    return values


@pytest.mark.parametrize("second", SECOND)
@pytest.mark.parametrize("first", FIRST)
def test_the_flag_is_the_carry_of_the_adder(first, second):
    """Mixed chains too: nvcc divides 128-bit integers with `sub.cc` followed by `addc`."""
    given = interesting()
    body = f"""
  ld.param.u64 %rd50, [p1];
  mov.u32 %r100, %laneid;
  mul.wide.u32 %rd51, %r100, 4;
  add.s64 %rd52, %rd50, %rd51;
  ld.global.b32 %r1, [%rd52]; ld.global.b32 %r2, [%rd52+128];
  ld.global.b32 %r3, [%rd52+256]; ld.global.b32 %r4, [%rd52+384];
  {first} %r5, %r1, %r2;
  {second} %r6, %r3, %r4;
  addc.u32 %r7, 0, 0;
{per_lane("%r5", "%r6", "%r7")}"""
    got = np.zeros((3, 32), np.uint32)
    assert run(module_of(body, parameters=2), got, given).fault is None
    for lane in range(32):
        a, b, c, d = (int(x) for x in given[:, lane])
        addend, carry = FIRST[first](b)
        low = a + addend + carry
        addend, carry = SECOND[second](d, low >> 32)
        high = c + addend + carry
        flag = high >> 32 if ".cc" in second else low >> 32
        assert [int(x) for x in got[:, lane]] == [low & MASK, high & MASK, flag], lane


def test_a_multiply_add_gives_the_same_flag():
    given = interesting()
    body = f"""
  ld.param.u64 %rd50, [p1];
  mov.u32 %r100, %laneid;
  mul.wide.u32 %rd51, %r100, 4;
  add.s64 %rd52, %rd50, %rd51;
  ld.global.b32 %r1, [%rd52]; ld.global.b32 %r2, [%rd52+128]; ld.global.b32 %r3, [%rd52+256];
  mad.lo.cc.u32 %r5, %r1, %r2, %r3;
  subc.u32 %r6, 5, %r3;
{per_lane("%r5", "%r6")}"""
    got = np.zeros((2, 32), np.uint32)
    assert run(module_of(body, parameters=2), got, given).fault is None
    for lane in range(32):
        a, b, c, _ = (int(x) for x in given[:, lane])
        total = (a * b & MASK) + c
        expected = [total & MASK, (5 + (c ^ MASK) + (total >> 32)) & MASK]
        assert [int(x) for x in got[:, lane]] == expected, lane


@pytest.mark.parametrize(
    ("first", "second", "negated"),
    [
        ("sub.cc.u32", "addc.u32", False),
        ("sub.cc.u32", "subc.u32", True),
        ("add.cc.u32", "subc.u32", True),
        ("add.cc.u32", "addc.u32", False),
    ],
)
def test_machine_code_hands_the_carry_on_as_it_is(toolchain, tmp_path, first, second, negated):
    """The rule above, in what ptxas writes: one predicate, nowhere negated; a subtraction adds the complement."""
    text = (
        HEADER
        + f"""
.visible .entry k(.param .u64 p0, .param .u32 a, .param .u32 b, .param .u32 c, .param .u32 d) {{
  .reg .b32 %r<9>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [p0]; ld.param.u32 %r1, [a]; ld.param.u32 %r2, [b]; ld.param.u32 %r3, [c]; ld.param.u32 %r4, [d];
  {first} %r5, %r1, %r2;
  {second} %r6, %r3, %r4;
  st.global.u32 [%rd1], %r5; st.global.u32 [%rd1+4], %r6;
  ret;
}}
"""
    )
    code = disassembled(toolchain, text, tmp_path)
    flags = re.findall(r"IADD3 R\d+, (P\d),", code)
    (used,) = re.findall(r"(?:IADD3\.X|IMAD\.X) ([^;]*);", code)
    assert used.rsplit(", ", 2)[-2 if "!PT" in used else -1].strip() in flags, code
    assert ("~" in used or "LOP3.LUT R7, RZ, R7, RZ, 0x33" in code) == negated, code


@pytest.fixture(scope="module")
def wide(device, toolchain, made_once):
    folder = made_once(
        "wide-integers",
        lambda folder: compile_library(
            toolchain, SOURCES / "wide_integers.cu", folder / "wide.so", "--no-compress"
        ),
    )
    return device.simulator.load(folder / "wide.so")


def truncated(a, b):
    """Quotient and remainder as C has them: towards zero."""
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return quotient, a - quotient * b


@pytest.mark.parametrize("signed", [False, True])
def test_nvcc_divides_128_bit_integers(device, wide, signed):
    random = np.random.default_rng(3)
    a, b = (
        [int.from_bytes(random.bytes(16), "little") >> shift for _ in range(2) for shift in shifts]
        for shifts in (range(0, 128, 2), [*range(126, 60, -2), *range(0, 62, 2)])
    )
    bits = lambda values: np.array(  # noqa: E731
        [[v & 2**64 - 1, v >> 64 & 2**64 - 1] for v in values], np.uint64
    )
    b = [value or 7 for value in b]
    if signed:
        a, b = ([v - 2**128 if v >> 127 else v for v in values] for values in (a, b))
        a = [-v if i % 3 == 0 else v for i, v in enumerate(a)]
    out = np.zeros((4, len(a), 2), np.uint64)
    assert device.run(wide, "divide", bits(a), bits(b), out, len(a), int(signed)) == 0
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        quotient, remainder = truncated(x, y)
        expected = bits([quotient, remainder, x * y, x - y])
        assert (out[:, i] == expected).all(), (x, y)
