"""Every barrier of the examples and of the test kernels dropped, one at a time: what catches it, or why it is not needed.

A barrier is dropped from the PTX, so that everything else stays as the compiler had it. One in a function that was
inlined twice, or in an unrolled loop, is dropped everywhere in its kernel. The reductions over a block
(`__syncthreads_count` and its like) stay: without them there is no value.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from astra_kernels.languages.cuda.toolchain import Toolchain
from astra_kernels.simulator import Library, SimulatorOptions, SourceLine
from astra_kernels.simulator.lowering.microcode import FENCE
from astra_kernels.simulator.module import PreparedKernel
from tests.simulator.conftest import SOURCES, Device, compile_library, random

ROOT = Path(__file__).resolve().parents[2]
ORDERS = (0, 1, 2, 3)
"""Orders of warps and blocks that a kernel without a barrier is tried in."""
_STEPS = 500_000
"""Of a block that may wait for ever."""
FLASHINFER = "flashinfer"


@dataclass(frozen=True)
class Case:
    """A call that runs a kernel with barriers.

    Attributes:
        source: The file, below the repository; the name of a test kernel's file alone.
        entry: Its launcher.
        arguments: Makes them anew for every call.
    """

    source: str
    entry: str
    arguments: Callable[[], tuple[Any, ...]]


@dataclass(frozen=True)
class Dropped:
    """One barrier that was dropped."""

    case: Case
    kernel: str
    line: SourceLine
    caught: str
    """By what; "" when nothing did."""

    @property
    def key(self) -> str:
        """The barrier, as `REDUNDANT` names it."""
        return f"{Path(self.line.file).name}:{self.line.line} {self.kernel}"


def _ints(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.int32)


def _rmsnorm(dtype: str, hidden: int) -> Callable[[], tuple[Any, ...]]:
    import ml_dtypes

    kind = {"half": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}[dtype]

    def make() -> tuple[Any, ...]:
        x, residual, weight = (
            random(s, kind, i) for i, s in enumerate([(3, hidden)] * 2 + [hidden])
        )
        sizes = ctypes.c_int64(3), ctypes.c_int64(hidden), ctypes.c_void_p(0)
        return x, residual, weight, 1e-5, *sizes

    return make


def _copy() -> tuple[Any, ...]:
    return np.arange(256, dtype=np.int32), _ints(64), 0


def _reduce() -> tuple[Any, ...]:
    return np.arange(2000, dtype=np.int32), 2000, _ints(5), _ints(5), 5


def _histogram() -> tuple[Any, ...]:
    x = np.random.default_rng(0).integers(-2, 70, 5000).astype(np.int32)
    return x, np.zeros(64, np.uint32), 5000, 64


def _ticket() -> tuple[Any, ...]:
    return np.zeros(1, np.uint32), np.zeros(320, np.int16), _ints(64), 0


_OWN = "examples/fused_add_rmsnorm{}/baseline/fused_add_rmsnorm.cu"
CASES = (
    *(
        Case(_OWN.format(suffix), "fused_add_rmsnorm", _rmsnorm(dtype, hidden))
        for suffix, dtype in (("", "half"), ("_bf16", "bf16"))
        for hidden in (1024, 1001)
    ),
    Case(
        FLASHINFER,
        "fused_add_rmsnorm",
        lambda: (*_rmsnorm("half", 4096)()[:3], 3, 4096, 1e-5),
    ),
    Case("norms", "rmsnorm", lambda: (random((3, 1003)), random(1003), random((3, 1003)), 3, 1003, 1e-5)),
    Case("norms", "softmax", lambda: (*_rmsnorm("bf16", 777)()[:2], 3, 777)),
    Case("norms", "staged_sum", lambda: (random((3, 512, 4)), np.zeros(3, np.float32), 3, 512)),
    *(
        Case("norms", "transpose", lambda pad=pad: (random((70, 97)), random((97, 70)), 70, 97, pad))
        for pad in (0, 1)
    ),
    Case("warps", "named_barrier", lambda: (_ints(32),)),
    Case("warps", "histogram", _histogram),
    Case("cooperative", "reduce", _reduce),
    Case("cooperative", "rotate", lambda: (_ints(5), _ints(5), 3, 0, _ints(5), 5)),
    Case("cooperative", "queue", lambda: (np.zeros(1, np.uint32), 100, _ints(100), 2)),
    Case("cooperative", "outside", lambda: (_ints(4), 0, 4)),
    Case("checks", "grid", lambda: (_ints(5), _ints(320), 0)),
    Case("ordering", "one_waits_for_all", lambda: (_ints(64), 64, 1)),
    Case("ordering", "local_and_shared", lambda: (_ints(64), 64, 1)),
    Case("faults", "shared", lambda: (np.zeros(64, np.float32), 0)),
    Case("faults", "dynamic_shared", lambda: (np.zeros(64, np.float32), 0)),
    *(
        Case("checks", entry, lambda: (_ints(256), 0))
        for entry in (
            "reads", "overwrite", "both_write", "at_once", "count", "named", "in_block", "unwritten_shared", "divergent",
            "matrix_rows", "matrix_stores",
        )
    ),
    Case("hosting", "shares", lambda: (_ints(32), 256, 0)),
    Case("checks", "copy", _copy),
    Case("checks", "last_block", _ticket),
)  # fmt: skip

_OWN_SLOT = "every thread reads the element that it wrote itself"
_ONLY_WHEN_WRONG = "it runs only when the kernel is asked to be wrong"
_NOTHING_AFTER = "what comes after it reads nothing that was written before it"
_NOTHING_BEFORE = "nothing is read or written before it"
_ONE_THREAD = "only thread 0 writes or reads what others do, and the counter inside still orders it"
REDUNDANT = {
    "cooperative.cu:38 rotate_kernel": _ONE_THREAD,
    "cooperative.cu:61 queue_kernel": _NOTHING_AFTER,
    "cooperative.cu:76 outside_kernel": _NOTHING_BEFORE,
    "faults.cu:19 shared_kernel": _OWN_SLOT,
    "faults.cu:25 dynamic_shared_kernel": _OWN_SLOT,
    "checks.cu:78 named_kernel": _ONLY_WHEN_WRONG,
    "checks.cu:160 grid_kernel": _ONLY_WHEN_WRONG,
    "checks.cu:97 copy_kernel": _ONLY_WHEN_WRONG,
    "checks.cu:184 divergent_kernel": _ONLY_WHEN_WRONG,
}
"""Barriers that nothing catches, and why they need not be caught."""


def sources() -> dict[str, Path]:
    """The files to compile, by the name that cases use."""
    names = dict.fromkeys(case.source for case in CASES)
    return {n: ROOT / n if "/" in n else SOURCES / f"{n}.cu" for n in names}


def compiled(toolchain: Toolchain, folder: Path) -> dict[str, Path]:
    """The libraries of all cases, built in `folder`, by the name that cases use.

    FlashInfer's is left out where it is not installed.
    """
    package = importlib.util.find_spec("flashinfer")
    for header in ("cublasLt.h", "cublas_v2.h", "curand_kernel.h"):
        (folder / header).touch()  # norm.cuh includes them and uses nothing of them
    libraries: dict[str, Path] = {}

    def build(item: tuple[int, tuple[str, Path]]) -> None:
        number, (name, source) = item
        flags = ["--no-compress"]
        if name == FLASHINFER:
            if package is None or package.origin is None:
                return
            include = Path(package.origin).parent / "data" / "include"
            flags += [f"-I{folder}", f"-I{include}"]
        libraries[name] = compile_library(toolchain, source, folder / f"{number}.so", *flags)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(build, enumerate(sources().items())))
    return libraries


def rows(device: Device, libraries: dict[str, Path]) -> Iterator[Dropped]:
    """All barriers of the cases whose library is there, each once."""
    loaded = {name: device.simulator.load(path) for name, path in libraries.items()}
    for case in CASES:
        if case.source in loaded:
            yield from drops(device, loaded[case.source], case)


def drops(device: Device, library: Library, case: Case) -> Iterator[Dropped]:
    """Drops every barrier of the kernels that the case runs."""
    expected = _outputs(device, library, case, SimulatorOptions())
    assert isinstance(expected, list), expected
    for kernel in _kernels(device, library, device.launch.kernel):
        for line, places in _barriers(kernel).items():
            before = kernel.encoded.code[places]
            try:
                _drop(device, kernel, places)
                caught = next(filter(None, _tries(device, library, case, expected)), "")
            finally:
                kernel.encoded.code[places] = before
            yield Dropped(case, _short(kernel.lowered.name), line, caught)


def _short(mangled: str) -> str:
    """The kernel's own name, with a number that is a template argument."""
    found = re.findall(r"[A-Za-z_]+[Kk]ernel", mangled) or re.findall(r"^_Z\d+([a-z]+)P", mangled)
    name = found[-1].lstrip("_")
    number = re.search(r"[Kk]ernelILi(\d+)E", mangled)
    return f"{name}<{number[1]}>" if number else name


def _kernels(device: Device, library: Library, name: str) -> list[PreparedKernel]:
    """The library's kernel of this name; another library may have one too."""
    lines = [x.split() for x in Path("/proc/self/maps").read_text().splitlines()]
    parts = [x[0].split("-") for x in lines if x[-1] == library._library._name]
    inside = [range(int(start, 16), int(end, 16)) for start, end in parts]
    modules = device.simulator._modules.items()
    own = [module for image, module in modules if any(image in part for part in inside)]
    assert own, f"no module of {library._library._name} was used"
    return [k for module in own for k in module._kernels.values() if k.lowered.name == name]


def _barriers(kernel: PreparedKernel) -> dict[SourceLine, list[int]]:
    found: dict[SourceLine, list[int]] = {}
    for index, operation in enumerate(kernel.lowered.microcode.operations):
        instruction = operation.instruction
        plain = operation.handler in ("barrier", "barrier_arrive") and not operation.mode
        if not plain or instruction is None or instruction.line is None:
            continue
        if "cooperative_groups" not in instruction.line.file:
            found.setdefault(instruction.line, []).append(index)
    return found


def _drop(device: Device, kernel: PreparedKernel, places: list[int]) -> None:
    numbers = device.simulator._executor.operation_numbers()
    kernel.encoded.code["handler"][places] = numbers.handlers["nop"]
    kernel.encoded.code["mode"][places] = 1 - FENCE


def _tries(
    device: Device, library: Library, case: Case, expected: list[np.ndarray]
) -> Iterator[str]:
    for order in ORDERS:
        options = SimulatorOptions(checks=True, order=order, step_limit=_STEPS)
        found = _outputs(device, library, case, options)
        if isinstance(found, str):
            yield found
        elif any(not np.array_equal(a, b) for a, b in zip(found, expected, strict=True)):
            yield "wrong output"


def _outputs(
    device: Device, library: Library, case: Case, options: SimulatorOptions
) -> list[np.ndarray] | str:
    """All arrays after the call, as bytes; the fault in words when there was one."""
    arguments = case.arguments()
    device.simulator._executor._library.cudaGetLastError()  # of the call before
    code = device.run(library, case.entry, *arguments, options=options)
    fault = device.launch.fault
    if fault is not None:
        return _words(fault.kind, fault.line, None if fault.other is None else fault.other.line)
    assert code == 0, f"{case.entry} returned {code}"
    return [a.view(np.uint8) for a in arguments if isinstance(a, np.ndarray)]


def _words(kind: str, line: SourceLine | None, other: SourceLine | None) -> str:
    lines = [str(x.line) for x in (line, other) if x is not None]
    return f"`{kind}`, line {' and '.join(lines)}" if lines else f"`{kind}`"


def page(rows: list[Dropped]) -> str:
    """docs/barriers.md.

    Raises:
        ValueError: a barrier is neither caught nor known to be redundant.
    """
    text = [
        "# Dropped barriers\n",
        "Every `__syncthreads()` and `bar.sync` of the examples and of the simulator's test kernels, dropped one at a time,\n"
        "and what the simulated device's checks make of it. Written by `scripts/barriers`; a test compares a part of it every\n"
        "time, and all of it with `--full`.\n",
        "A barrier is dropped from the PTX, everywhere in its kernel where its line is, and the kernel is run in "
        f"{len(ORDERS)} orders of\nwarps and blocks. *Caught* names the first finding and the source lines of both sides, "
        "or says that the output was wrong.\nBlock-wide reductions (`__syncthreads_count`) are not dropped: they give a "
        "value. The barriers inside of `this_grid().sync()`\nare dropped together. Kernels that are wrong on purpose are run "
        "without their fault.\n",
        "| source | line | kernel | without it |",
        "|---|---|---|---|",
    ]
    for row in rows:
        verdict = f"caught: {row.caught}" if row.caught else f"redundant: {REDUNDANT.get(row.key)}"
        if not row.caught and row.key not in REDUNDANT:
            raise ValueError(f"{row.key} is neither caught nor known to be redundant")
        name = (
            row.case.source
            if "/" in row.case.source
            else f"tests/simulator/cu/{row.case.source}.cu"
        )
        inside = Path(row.line.file).name
        place = str(row.line.line) if name.endswith(inside) else f"{inside}:{row.line.line}"
        text.append(f"| `{name}` | {place} | `{row.kernel}` | {verdict} |")
    caught = sum(bool(row.caught) for row in rows)
    text.append(
        f"\n{caught} of {len(rows)} are caught, {len(rows) - caught} are redundant, none is missed."
    )
    return "\n".join(text) + "\n"
