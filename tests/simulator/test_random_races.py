"""Small kernels by chance: steps that exchange through shared memory, with and without a barrier that is needed."""

from dataclasses import dataclass

import numpy as np
import pytest

from astra_kernels.simulator import FaultKind, SimulatorOptions
from tests.simulator.conftest import compile_library

THREADS, KERNELS = 96, 24


@dataclass(frozen=True)
class Step:
    """One store of a thread's own slot, and one load of another's."""

    buffer: int
    distance: int


def kernel(number, steps):
    """Bit 2k of `barriers` has the barrier before the load of step k, bit 2k + 1 the one after it."""
    lines = [
        f"__global__ void random{number}_kernel(int* y, unsigned barriers) {{",
        f"  __shared__ int s[2][{THREADS}];",
        "  int t = threadIdx.x, v = t;",
    ]
    for k, step in enumerate(steps):
        lines += [
            f"  s[{step.buffer}][t] = v + {k};",
            f"  if (barriers >> {2 * k} & 1u) __syncthreads();",
            f"  v += s[{step.buffer}][(t + {step.distance}) % {THREADS}];",
            f"  if (barriers >> {2 * k + 1} & 1u) __syncthreads();",
        ]
    lines += ["  y[t] = v;", "}"]
    launcher = (
        f'extern "C" int random{number}(int* y, int barriers) {{\n  cudaGetLastError();\n'
        f"  random{number}_kernel<<<2, {THREADS}>>>(y + 0, barriers);\n  return cudaGetLastError();\n}}"
    )
    return "\n".join([*lines, launcher]).replace("y[t] = v", "if (blockIdx.x == 0) y[t] = v")


def is_ordered(steps, barriers):
    """Whether a barrier lies between any two accesses of different threads to one slot, one of which writes."""
    events = []  # buffer, owner's distance from the thread, writes, barriers before it
    passed = 0
    for k, step in enumerate(steps):
        events.append((step.buffer, 0, True, passed))
        passed += barriers >> (2 * k) & 1
        events.append((step.buffer, step.distance % THREADS, False, passed))
        passed += barriers >> (2 * k + 1) & 1
    return all(
        a[0] != b[0] or a[1] == b[1] or not (a[2] or b[2]) or a[3] != b[3]
        for i, a in enumerate(events)
        for b in events[i + 1 :]
    )


@pytest.fixture(scope="module")
def programs():
    source = np.random.default_rng(11)
    return [
        [Step(int(source.integers(2)), int(source.choice([0, 1, 32, 33, 95]))) for _ in range(3)]
        for _ in range(KERNELS)
    ]


@pytest.fixture(scope="module")
def library(device, toolchain, tmp_path_factory, programs):
    folder = tmp_path_factory.mktemp("random")
    text = "#include <cuda_runtime.h>\n" + "\n".join(map(kernel, range(KERNELS), programs))
    (folder / "random.cu").write_text(text)
    return device.simulator.load(
        compile_library(toolchain, folder / "random.cu", folder / "random.so", "--no-compress")
    )


def test_a_race_is_found_exactly_where_a_barrier_is_missing(device, library, programs):
    seen = {True: 0, False: 0}
    for number, steps in enumerate(programs):
        for barriers in range(64):
            ordered = is_ordered(steps, barriers)
            seen[ordered] += 1
            for order in (0, 1 + barriers):
                options = SimulatorOptions(checks=True, counters=False, order=order)
                y = np.zeros(THREADS, np.int32)
                device.run(library, f"random{number}", y, barriers, options=options)
                fault = device.launch.fault
                found = None if fault is None else fault.kind
                assert found == (None if ordered else FaultKind.SHARED_RACE), (
                    steps,
                    barriers,
                    order,
                    str(fault),
                )
    assert min(seen.values()) > 200
