"""`wmma` loads and stores against the machine code that ptxas makes of them: how many accesses of which width."""

import re
from collections import Counter
from itertools import product

import numpy as np
import pytest

from tests.simulator.handwritten import HEADER, disassembled, load, module_of, run

SHAPES = {
    **dict.fromkeys(("f16", "bf16", "s8"), ("m16n16k16", "m32n8k16", "m8n32k16")),
    "tf32": ("m16n16k8",),
    "f64": ("m8n8k4",),
}
RESULTS = {
    "f16": ("f16", "f32"),
    "bf16": ("f32",),
    "s8": ("s32",),
    "tf32": ("f32",),
    "f64": ("f64",),
}
BITS = {"f16": 16, "bf16": 16, "s8": 8}
SPACES = {"global": ".global", "shared": ".shared", "generic": ""}
OPCODE = re.compile(r"\s(LDG|LDS|LD|STG|STS|ST|LDSM|MOVM)\.([\w.]+|\b)|\s(LDS|STS) ")


def forms():
    """Which fragment, its type, the shape, the layout and the space."""
    found = []
    for factor, shapes in SHAPES.items():
        moves = [(which, factor) for which in "ab"]
        moves += [(which, result) for which in "cd" for result in RESULTS[factor]]
        found += [(*move, shape) for move in moves for shape in shapes]
    return [
        (*form, *rest) for form in dict.fromkeys(found) for rest in product(("row", "col"), SPACES)
    ]


def registers(which, kind, shape):
    """How many a lane has of a fragment, and of which width in bytes."""
    m, n, k = map(int, re.findall(r"\d+", shape))
    width = 8 if kind == "f64" else 4
    if which in "ab" and kind == "f16":
        return 8, width
    elements = {"a": m * k, "b": k * n}.get(which, m * n)
    return elements * BITS.get(kind, 32) // 32 // 32 or 1, width


def kernel(which, kind, shape, layout, space, stride=64):
    """A load of a fragment and volatile stores of its registers, or volatile loads and a store."""
    count, width = registers(which, kind, shape)
    name, ptx_type = (
        ("%fd", "f64") if kind == "f64" else ("%f", "f32") if kind == "f32" else ("%r", "b32")
    )
    names = [f"{name}{16 + index}" for index in range(count)]
    base = {"global": "%rd1", "shared": "tile", "generic": "%rd0"}[space]
    verb = f"wmma.{'store' if which == 'd' else 'load'}.{which}.sync.aligned.{layout}.{shape}{SPACES[space]}.{kind}"
    lines = [
        "ld.param.u64 %rd0, [p0];",
        "ld.param.u64 %rd2, [p1];",
        "cvta.to.global.u64 %rd1, %rd0;",
    ]
    lines += ["cvta.to.global.u64 %rd2, %rd2;", "mov.u32 %r1, %tid.x;"]
    lines += [f"mul.wide.u32 %rd3, %r1, {count * width};", "add.s64 %rd2, %rd2, %rd3;"]
    if which == "d":
        lines += [
            f"ld.volatile.global.{ptx_type} {x}, [%rd2+{i * width}];" for i, x in enumerate(names)
        ]
        lines += [f"{verb} [{base}], {{{', '.join(names)}}}, {stride};"]
    else:
        lines += [f"{verb} {{{', '.join(names)}}}, [{base}], {stride};"]
        lines += [
            f"st.volatile.global.{ptx_type} [%rd2+{i * width}], {x};" for i, x in enumerate(names)
        ]
    declared = "  .shared .align 128 .b8 tile[32768];" if space == "shared" else ""
    return module_of("  " + "\n  ".join(lines), 2, declarations=declared)


def machine_accesses(code):
    """Accesses by kind and bytes a lane, and transpositions, but for the volatile ones."""
    found = Counter()
    for text in code.splitlines():
        opcode = re.search(r"\s((?:LDG|LDS|LD|STG|STS|ST|LDSM|MOVM)(?:\.[\w.]+)?)\s", text)
        if opcode is None or "STRONG" in opcode[1]:
            continue
        name, *modifiers = opcode[1].split(".")
        if name == "MOVM":
            found["transposition"] += 1
        elif name == "LDSM":
            found["matrices", int(modifiers[-1]) if modifiers[-1].isdigit() else 1] += 1
        else:
            bits = next((int(m.strip("US")) for m in modifiers if m.strip("US").isdigit()), 32)
            found["load" if name.startswith("LD") else "store", bits // 8] += 1
    return found


def lowered_accesses(text):
    """The same of the micro-operations."""
    found = Counter()
    for operation in load(text).kernel("k").lowered.microcode.operations:
        memory = operation.memory
        if operation.instruction is None or operation.instruction.parts[0] != "wmma":
            continue
        if operation.handler == "transpose_matrix":
            found["transposition"] += 1
        elif operation.handler == "load_matrices":
            found["matrices", len(operation.results)] += 1
        elif operation.handler in ("load", "store"):
            found[operation.handler, memory.element_bytes * memory.elements] += 1
    return found


def test_accesses_are_those_of_the_machine_code(toolchain, tmp_path):
    texts = {form: kernel(*form) for form in forms()}
    whole = HEADER + "".join(
        text.removeprefix(HEADER).replace(".entry k(", f".entry k{number}(")
        for number, text in enumerate(texts.values())
    )
    listing = disassembled(toolchain, whole, tmp_path)
    found = {int(n): code for n, code in re.findall(r"\.text\.k(\d+):(.*?)\bBRA\b", listing, re.S)}
    assert len(found) == len(texts) > 200
    wrong = {}
    for number, (form, text) in enumerate(texts.items()):
        there, here = machine_accesses(found[number]), lowered_accesses(text)
        if there != here:
            wrong[form] = there, here
    assert not wrong


@pytest.mark.parametrize("form", [f for f in forms() if f[0] in "abc" and f[-1] == "shared"])
def test_fragments_from_shared_memory_are_those_from_global_memory(form):
    """By the tile's copy in shared memory, with matrices of rows a stride apart."""
    which, kind, shape, layout, _ = form
    count, width = registers(which, kind, shape)
    memory = np.random.default_rng(1).integers(0, 256, 32768, np.uint8)
    found = []
    for space in ("global", "shared"):
        text = kernel(which, kind, shape, layout, space)
        if space == "shared":
            copy = (
                "  mov.u32 %r2, tile;\n  shl.b32 %r3, %r1, 2;\n  add.u32 %r2, %r2, %r3;\n"
                "  cvt.u64.u32 %rd5, %r3;\n  add.s64 %rd5, %rd1, %rd5;\n  mov.u32 %r4, 0;\n"
                "again:\n  ld.global.u32 %r5, [%rd5];\n  st.shared.u32 [%r2], %r5;\n"
                "  add.s64 %rd5, %rd5, 128;\n  add.u32 %r2, %r2, 128;\n  add.u32 %r4, %r4, 1;\n"
                "  setp.lt.u32 %p1, %r4, 256;\n  @%p1 bra again;\n  bar.sync 0;\n  wmma.load"
            )
            text = text.replace("  wmma.load", copy)
        out = np.zeros(32 * count * width, np.uint8)
        run(text, memory.copy(), out)
        found.append(out)
    assert found[0].any()
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("form", "stride", "wavefronts"),
    [
        # Rows of 16 bytes 128 bytes apart meet in the same four banks; 16 bytes more, and no two do.
        (("a", "f16", "m16n16k16", "row", "shared"), 64, 32),
        (("a", "f16", "m16n16k16", "row", "shared"), 72, 4),
        (("b", "f16", "m16n16k16", "row", "shared"), 72, 4),
        (("a", "f16", "m16n16k16", "row", "shared"), 8, 4),
    ],
)
def test_wavefronts_of_matrices_by_the_banks_of_their_rows(form, stride, wavefronts):
    text = kernel(*form, stride=stride)
    launch = run(text, np.zeros(64, np.uint8), np.zeros(32 * 8 * 4, np.uint8))
    metrics = launch.counters.metrics
    assert metrics["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"] == wavefronts


@pytest.mark.parametrize(
    ("form", "requests", "sectors"),
    [
        # Eight rows of 16 bytes an access, each in a sector of its own.
        (("a", "f16", "m16n16k16", "row", "global"), 4, 32),
        (("a", "f16", "m16n16k16", "col", "generic"), 4, 32),
        # Single bytes: four places of eight rows apart.
        (("b", "s8", "m16n16k16", "row", "global"), 8, 32),
    ],
)
def test_requests_and_sectors_of_a_fragment(form, requests, sectors):
    launch = run(kernel(*form), np.zeros(4096, np.uint8), np.zeros(32 * 8 * 4, np.uint8))
    metrics = launch.counters.metrics
    assert metrics["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == requests
    assert metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == sectors
