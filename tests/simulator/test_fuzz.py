"""PTX that somebody broke: it gives a result or one of the simulator's own errors, and nothing else.

Real kernels are changed in their text at random and run in a process of their own, so that a crash of the
executor would be seen as such.
"""

import faulthandler
import multiprocessing
import random
import re
import sys

import pytest

from astra_kernels.simulator import SimulatorOptions, SimulatorRefusal
from astra_kernels.simulator.elf import ElfFile
from astra_kernels.simulator.fatbin import find_ptx, holds_ptx, images

SAMPLE, FULL = 250, 3000
STEPS = 20_000
SECONDS_FOR_ONE = 30.0
TOKEN = re.compile(r"[%$A-Za-z_][\w$]*|\d+|0[xfdXFD][0-9a-fA-F]+|\.\w+|\S")
TYPES = ("b8", "u8", "s8", "b16", "u16", "s16", "f16", "bf16", "f16x2", "b32", "u32", "s32", "f32")
TYPES += ("b64", "u64", "s64", "f64", "pred", "tf32", "e4m3x2")
NUMBERS = (
    "0",
    "1",
    "-1",
    "3",
    "31",
    "32",
    "33",
    "255",
    "4096",
    "65535",
    "2147483647",
    "4294967295",
)
NUMBERS += ("18446744073709551615", "-9223372036854775808", "0f7FC00000", "0x10000000000000000")


def units(built):
    """PTX texts of the built test kernels, one kernel each, so that a change is likely to matter."""
    from astra_kernels.simulator.ptx import parse_module

    found = []
    for name in ("norms", "warps", "ordering", "tensor", "system", "faults"):
        for image in images(ElfFile.read(built[name]).section(".nv_fatbin")):
            if not holds_ptx(image):
                continue
            text = find_ptx(image, 90)
            kernels = [f.name for f in parse_module(text).functions.values() if f.entry]
            found += [(text, kernel) for kernel in kernels]
    return found


def mutate(text, kernel, source):
    """Change one to four places of a kernel's text."""
    start = text.index(kernel)
    end = text.find("\n}", start)
    head, body, tail = text[:start], text[start:end], text[end:]
    for _ in range(source.randint(1, 4)):
        body = source.choice(MUTATIONS)(body, source)
    return head + body + tail


def _lines(body, source, change):
    lines = body.split("\n")
    change(lines, source.randrange(len(lines)), source.randrange(len(lines)))
    return "\n".join(lines)


def drop_line(body, source):
    return _lines(body, source, lambda lines, i, j: lines.pop(i))


def double_line(body, source):
    return _lines(body, source, lambda lines, i, j: lines.insert(j, lines[i]))


def swap_lines(body, source):
    def swap(lines, i, j):
        lines[i], lines[j] = lines[j], lines[i]

    return _lines(body, source, swap)


def _tokens(body, source, change):
    places = [m.span() for m in TOKEN.finditer(body)]
    (a, b), (c, d) = sorted(source.sample(places, 2))
    return change(body, a, b, c, d)


def drop_token(body, source):
    return _tokens(body, source, lambda t, a, b, c, d: t[:a] + t[b:])


def double_token(body, source):
    return _tokens(body, source, lambda t, a, b, c, d: t[:b] + t[a:b] + t[b:])


def swap_tokens(body, source):
    return _tokens(body, source, lambda t, a, b, c, d: t[:a] + t[c:d] + t[b:c] + t[a:b] + t[d:])


def copy_token(body, source):
    return _tokens(body, source, lambda t, a, b, c, d: t[:c] + t[a:b] + t[d:])


def _replace(body, source, pattern, replacement):
    places = list(re.finditer(pattern, body))
    if not places:
        return body
    place = source.choice(places)
    return body[: place.start(1)] + replacement + body[place.end(1) :]


def change_type(body, source):
    return _replace(body, source, r"\.((?:[bsuf]\d+|pred|bf16|f16x2))\b", source.choice(TYPES))


def change_number(body, source):
    return _replace(body, source, r"(?<![%\w.])(-?\d+)\b", source.choice(NUMBERS))


def change_register(body, source):
    registers = re.findall(r"%[a-z]+\d+", body) or ["%r1"]
    return _replace(body, source, r"(%[a-z]+\d+)", source.choice(registers))


def change_modifier(body, source):
    known = re.findall(r"\.[a-z]\w+", body) or [".b32"]
    return _replace(body, source, r"(\.[a-z]\w+)", source.choice(known))


MUTATIONS = [
    drop_line, double_line, swap_lines, drop_token, double_token, swap_tokens, copy_token,
    change_type, change_type, change_number, change_number, change_register, change_register,
    change_modifier,
]  # fmt: skip


def run_one(text, kernel):
    """Run a kernel on small buffers; gives "ran", or the error's name when it is one of the simulator's."""
    from astra_kernels.simulator.launching import Geometry, run_launch
    from tests.simulator.handwritten import EXECUTOR, load

    addresses = []
    try:
        module = load(text)
        prepared = module.kernel(kernel)
        packed = bytearray(max(prepared.lowered.frame.parameter_bytes, 1))
        for offset, size in prepared.lowered.frame.parameters.values():
            value = 2
            if size == 8:
                value = EXECUTOR.allocate(8192, "fuzz")
                addresses.append(value)
            packed[offset : offset + size] = value.to_bytes(8, "little")[:size].ljust(size, b"\0")
        geometry = Geometry((2, 1, 1), (64, 1, 1), 256)
        options = SimulatorOptions(threads=1, step_limit=STEPS)
        run_launch(EXECUTOR, prepared, geometry, bytes(packed), module.symbols, options)
    except SimulatorRefusal as refusal:
        assert str(refusal).strip()
        return type(refusal).__name__
    finally:
        for address in addresses:
            EXECUTOR.release(address)
    return "ran"


def work(pipe, texts, seeds):
    """In the child: report each seed before and after it ran."""
    faulthandler.enable(sys.stderr)
    for seed in seeds:
        pipe.send(("start", seed, None))
        source = random.Random(seed)
        text, kernel = source.choice(texts)
        try:
            outcome = run_one(mutate(text, kernel, source), kernel)
        except Exception as error:
            import traceback

            outcome = f"traceback: {error!r}\n{traceback.format_exc(limit=-3)}"
        pipe.send(("done", seed, outcome))
    pipe.send(("end", None, None))


def fuzz(texts, seeds):
    """Run all seeds, in a new process after each that took one down; gives seed to outcome."""
    outcomes, rest = {}, list(seeds)
    context = multiprocessing.get_context("fork")
    while rest:
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=work, args=(theirs, texts, rest))
        child.start()
        theirs.close()
        current = None
        while True:
            try:
                if not ours.poll(SECONDS_FOR_ONE):
                    outcomes[current] = "hang"
                    break
                what, seed, outcome = ours.recv()
            except EOFError:
                child.join()
                outcomes[current] = f"crash: {child.exitcode}"
                break
            if what == "start":
                current = seed
            elif what == "done":
                outcomes[seed] = outcome
            else:
                break
        child.kill()
        child.join()
        rest = [seed for seed in rest if seed not in outcomes]
    return outcomes


@pytest.fixture(scope="module")
def texts(built):
    return units(built)


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(SAMPLE), id="sample"),
        pytest.param(range(FULL), id="all", marks=pytest.mark.full),
    ],
)
def test_broken_ptx_gives_a_result_or_a_clear_error(texts, seeds, capfd):
    outcomes = fuzz(texts, seeds)
    allowed = {"ran", "UnsupportedPtx", "InvalidPtx", "SimulatorRefusal"}
    bad = {seed: outcome for seed, outcome in outcomes.items() if outcome not in allowed}
    assert not bad, "\n".join(f"{seed}: {outcome}" for seed, outcome in bad.items())
    counts = {name: list(outcomes.values()).count(name) for name in allowed}
    assert counts["ran"] > len(outcomes) // 20  # the changes are small enough to reach the executor
    assert counts["UnsupportedPtx"] > 0
