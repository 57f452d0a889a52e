"""Every baseline, run on the simulated device, gives the answer of its reference: at odd sizes, at the paper's, unaligned."""

import ctypes
import math

import numpy as np
import pytest
from example_problems import (
    EXAMPLES,
    NAMES,
    as_tuple,
    definition_of,
    each_problem,
    inputs_of,
    reference_of,
    small_workload,
    workloads_of,
)

from astra_kernels.importers.problem_dir import load_problem
from astra_kernels.jobs.elements import numpy_dtype
from astra_kernels.jobs.ulps import float_errors
from astra_kernels.simulator import Simulator

SMALL_ELEMENTS = 1 << 19
LARGE_ELEMENTS = 20_000_000
OWN = [n for n in NAMES if not n.startswith("flashinfer")]
CTYPES = {
    "pointer": ctypes.c_void_p,
    "stream": ctypes.c_void_p,
    "float32": ctypes.c_float,
    "int64": ctypes.c_int64,
}


class Device:
    """Runs an entry point with arrays for pointers, each `shift` elements into its allocation."""

    def __init__(self, built, name, shift=0):
        self.definition, self.spec = definition_of(name), load_problem(EXAMPLES / name).spec
        self.simulator, self.shift = Simulator("h200"), shift
        library = self.simulator.load(built(name).library)
        self.arguments = self.spec.resolved_arguments(self.definition)
        self.function = library.function(self.spec.entry_symbol)
        self.function.argtypes = [CTYPES[a.ctype] for a in self.arguments]

    def run(self, axes, inputs):
        """The outputs in order; outputs that are not written stay NaN."""
        arrays = {n: v for n, v in inputs.items() if isinstance(v, np.ndarray)}
        for name, spec in self.definition.outputs.items():
            if spec.in_place_of is None:
                shape = tuple(axes[a] for a in spec.shape)
                arrays[name] = np.full(shape, np.nan, numpy_dtype(spec.dtype))
        allocations = {n: self._upload(n, a) for n, a in arrays.items()}
        pointers = {n: p + self.shift * arrays[n].itemsize for n, p in allocations.items()}
        values = {**axes, **inputs, **pointers, "stream": None}
        assert self.function(*(values[a.name] for a in self.arguments)) == 0
        launches = self.simulator.take_launches()
        assert launches and not any(launch.fault for launch in launches)
        outputs = []
        for name, spec in self.definition.outputs.items():
            place = spec.in_place_of or name
            got = np.empty_like(arrays[place])
            self.simulator.read(pointers[place], got)
            outputs.append(got)
        for name, array in arrays.items():
            self._check_untouched(name, array, pointers[name])
        for address in allocations.values():
            self.simulator.free(address)
        return outputs

    def _upload(self, name, array):
        address = self.simulator.allocate(array.nbytes + self.shift * array.itemsize, name)
        self.simulator.write(address + self.shift * array.itemsize, array)
        return address

    def _check_untouched(self, name, array, address):
        written = {o.in_place_of or n for n, o in self.definition.outputs.items()}
        if name not in written:
            now = np.empty_like(array)
            self.simulator.read(address, now)
            assert now.tobytes() == array.tobytes()


def check(device, name, workload):
    axes = device.definition.resolve_axes(workload.axes)
    inputs = inputs_of(name, workload)
    expected = as_tuple(reference_of(name).reference_fp64(*inputs.values()))
    results = zip(
        device.definition.outputs.items(), device.run(axes, inputs), expected, strict=True
    )
    for (output, spec), got, want in results:
        errors = float_errors(got.reshape(-1), want.reshape(-1), spec.dtype, None)
        assert not errors.misplaced, f"{workload.uuid}: {output}"
        assert errors.max_ulp < 0.75, f"{workload.uuid}: {output}"


def elements(name, workload):
    definition = definition_of(name)
    axes = definition.resolve_axes(workload.axes)
    tensors = (*definition.inputs.values(), *definition.outputs.values())
    return sum(math.prod(axes[a] for a in t.shape) for t in tensors if t.shape is not None)


def run_all(built, name, low, high):
    device, ran = Device(built, name), 0
    for workload in workloads_of(name):
        if low <= elements(name, workload) < high:
            check(device, name, workload)
            ran += 1
    assert ran


@each_problem(compiled=True)
def test_small_workloads(built, name):
    run_all(built, name, 0, SMALL_ELEMENTS)


@pytest.mark.full
@each_problem(compiled=True)
def test_the_shapes_of_the_paper(built, name):
    run_all(built, name, SMALL_ELEMENTS, LARGE_ELEMENTS)


@pytest.mark.parametrize("name", OWN)
def test_unaligned_tensors(built, name):
    """Rows that 16-byte accesses would fit, one element off in memory."""
    sizes = {"seq_len": 3, "num_heads": 4, "head_dim": 64, "tokens": 3, "hidden": 256}
    axes = {a: sizes[a] for a in definition_of(name).var_axes}
    check(Device(built, name, shift=1), name, small_workload(name, **axes))


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("inner", [1, 7, 8, 31, 256, 1000, 1024])
def test_sizes_around_vectors_and_warps(built, name, inner):
    sizes = {"seq_len": 2, "num_heads": 3, "head_dim": inner, "tokens": 2, "hidden": inner}
    axes = {a: sizes[a] for a in definition_of(name).var_axes}
    check(Device(built, name), name, small_workload(name, **axes))
