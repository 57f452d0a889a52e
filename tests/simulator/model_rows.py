"""Runs the kernels behind `machines/h200_measured.json` on the simulator."""

import ctypes
import importlib.util
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import astra_kernels.simulator as simulator
from astra_kernels.simulator import Launch, Resources, SimulatorOptions
from astra_kernels.simulator.elf import ElfFile
from astra_kernels.simulator.fatbin import find_registers, images

MEASURED = Path(simulator.__file__).parent / "machines" / "h200_measured.json"
SOURCES = Path(__file__).parent / "cu" / "model"
EXAMPLES = Path(__file__).parents[2] / "examples"
FLASHINFER_NAMES = {
    "silu_and_mul": "silu_and_mul",
    "fused_add_rmsnorm": "fused_add_rmsnorm",
    "merge_attn_states_lse": "merge_state",
}
EXACT = "return x / (1.0f + expf(-x));"
# The candidates that were measured, as edits of the baseline in cu/model.
FAST = {
    "exp+rcp": "return x * __frcp_rn(1.0f + __expf(-x));",
    "exp+div": "return astra_divide(x, 1.0f + __expf(-x));",
}
DIVIDE = """
__device__ __forceinline__ float astra_divide(float a, float b) {
  const float size = fabsf(b);
  return size > 0x1p-126f && size < 0x1p126f ? __fdividef(a, b) : a / b;
}
"""


@dataclass(frozen=True)
class Program:
    """One measured source: a problem, its element type, and which version."""

    problem: str
    dtype: str
    variant: str

    @property
    def folder(self):
        return "_bf16" if self.dtype == "bf16" else ""

    @property
    def entry(self):
        if self.variant == "flashinfer":
            return f"flashinfer_{FLASHINFER_NAMES[self.problem]}"
        return self.problem

    def source(self):
        if self.variant == "flashinfer":
            name = FLASHINFER_NAMES[self.problem]
            baseline = EXAMPLES / f"flashinfer_{name}{self.folder}" / "baseline"
            return (baseline / f"{name}.cu").read_text()
        text = (SOURCES / f"{self.problem}{self.folder}.cu").read_text()
        if self.variant.startswith("split="):
            return split_rows(text, int(self.variant.removeprefix("split=")))
        if self.variant in FAST:
            assert EXACT in text
            text = text.replace(EXACT, FAST[self.variant])
            return text.replace("namespace {\n", "namespace {\n" + DIVIDE, 1)
        assert self.variant == "own"
        return text


def split_rows(text, blocks):
    """Several blocks on each row of the unsplit kernels, as the measured candidates have it."""
    for bound in ("hidden / kVec", "hidden"):
        loop = f"for (int i = threadIdx.x; i < {bound}; i += blockDim.x)"
        assert loop in text
        text = text.replace(
            loop,
            f"for (int i = threadIdx.x + blockIdx.y * blockDim.x; i < {bound}; "
            "i += blockDim.x * gridDim.y)",
        )
    return text.replace("<<<blocks, threads", f"<<<dim3(blocks, {blocks}), threads")


def build(toolchain, program, folder):
    """The library, with PTX to execute and machine code to take registers from."""
    stem = f"{program.problem}-{program.dtype}-{program.variant}"
    source, library = folder / f"{stem}.cu", folder / f"{stem}.so"
    if library.exists():
        return library
    source.write_text(program.source())
    flags = []
    if program.variant == "flashinfer":
        package = importlib.util.find_spec("flashinfer")
        headers = EXAMPLES / "flashinfer_fused_add_rmsnorm" / "baseline"
        include = Path(package.origin).parent / "data" / "include"
        flags = ["-use_fast_math", f"-I{headers}", "-isystem", str(include)]
    command = [
        str(toolchain.nvcc), "-std=c++17", "-O3", "-shared", "-cudart", "shared", "-Xcompiler", "-fPIC",
        "-lineinfo", "--no-compress", "-gencode", "arch=compute_90,code=[compute_90,sm_90]",
        *(f"-L{path}" for path in toolchain.library_dirs), *flags, str(source), "-o", str(library),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return library


def registers_of(library):
    """Registers a thread of each kernel."""
    section = ElfFile(library.read_bytes(), library.name).section(".nv_fatbin")
    return {name: n for image in images(section) for name, n in find_registers(image, 90).items()}


def buffers_of(problem, shape):
    """Sizes in bytes of a call's buffers."""
    if problem == "merge_attn_states_lse":
        positions, heads, width = shape
        return [2 * positions * heads * width, 4 * positions * heads] * 3
    tokens, hidden = shape
    row = 2 * tokens * hidden
    return [row, 2 * row] if problem == "silu_and_mul" else [row, row, 2 * hidden]


@dataclass(frozen=True)
class Simulated:
    """One measured kernel and shape, and what the simulator recorded of it."""

    program: Program
    shape: tuple[int, ...]
    device_us: float
    launch: Launch
    resources: Resources


def call(device, library, program, shape, sample):
    """One call's only launch."""
    device.simulator.options = SimulatorOptions(block_sample=sample)
    addresses = [device.simulator.allocate(size) for size in buffers_of(program.problem, shape)]
    numbers = [ctypes.c_int64(n) for n in shape]
    if program.problem == "fused_add_rmsnorm":
        numbers.insert(0, ctypes.c_float(1e-6))
    pointers = [ctypes.c_void_p(address) for address in addresses]
    code = library.function(program.entry)(*pointers, *numbers, ctypes.c_void_p(0))
    (launch,) = device.simulator.take_launches()
    for address in addresses:
        device.simulator.free(address)
    assert code == 0
    return launch


def program_of(row, version=None):
    """The source of a measured row, or of another version of the same."""
    return Program(row["kernel"], row["dtype"], version or row["version"])


def simulate(device, toolchain, folder, rows, sample):
    """Simulate each measured kernel and shape once, by (program, shape); builds two at a time."""
    first = {}
    for row in rows:
        first.setdefault((program_of(row), tuple(row["shape"])), row)
    programs = list(dict.fromkeys(program for program, _ in first))
    with ThreadPoolExecutor(2) as pool:
        built = list(pool.map(lambda p: build(toolchain, p, folder), programs))
    libraries = {p: device.simulator.load(path) for p, path in zip(programs, built, strict=True)}
    registers = {p: registers_of(path) for p, path in zip(programs, built, strict=True)}
    found = {}
    for (program, shape), row in first.items():
        launch = call(device, libraries[program], program, shape, sample)
        resources = Resources(registers[program][launch.kernel])
        found[program, shape] = Simulated(program, shape, row["device_us"], launch, resources)
    return found


def measured_rows():
    """The rows whose very sources are at hand."""
    return json.loads(MEASURED.read_text())["problems"]["rows"]
