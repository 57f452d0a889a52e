"""Buffer sets that differ by chance: the device's words are the judge's, and values stay in their type."""

import ctypes
import dataclasses
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_kernels.jobs.inputs import draw
from astra_kernels.jobs.perturb import flip_image, flips_of, turned
from astra_kernels.jobs.spec import InputSpec, TensorSpec
from astra_kernels.simulator import Simulator
from tests.simulator.conftest import compile_library

from .staging import silu_spec, workload

HARNESS = Path(__file__).resolve().parents[2] / "src/astra_kernels/devices"
SIGNS = {"float16": 0x8000800080008000, "float32": 0x8000000080000000, "float64": 1 << 63}
LAUNCHER = """\
#include "{source}"
extern "C" int fill(void* slab, void* master, void* flips, uint64_t words, void* key, int sets) {{
  restore_sets<<<dim3(3, sets), 64>>>(static_cast<uint64_t*>(slab), static_cast<uint64_t*>(master),
                                      static_cast<uint64_t*>(flips), words, static_cast<uint64_t*>(key));
  return cudaGetLastError();
}}
"""


def silu_with(dtype, source):
    spec = silu_spec()
    tensor = TensorSpec(name="input", dtype=dtype, shape=("tokens", "two_hidden"))
    return dataclasses.replace(spec, inputs=(tensor,)), workload(
        "w", 4, 8, inputs={"input": source}
    )


@pytest.mark.parametrize("dtype", SIGNS)
def test_signs_turn_where_the_distribution_is_symmetric(dtype):
    spec, shape = silu_with(dtype, InputSpec(type="random"))
    values = np.ones((4, 16), dtype)
    assert flips_of(spec, shape, {"input": values}) == {"input": SIGNS[dtype]}


@pytest.mark.parametrize(
    "source", [InputSpec(type="custom"), InputSpec(type="random", distribution="ones")]
)
def test_elsewhere_the_last_bit_turns(source):
    spec, shape = silu_with("float16", source)
    assert flips_of(spec, shape, {"input": np.ones((4, 16), np.float16)}) == {
        "input": 0x0001000100010001
    }


def test_integers_and_what_is_not_finite_stay():
    spec, shape = silu_with("int32", InputSpec(type="random"))
    assert flips_of(spec, shape, {"input": np.ones((4, 16), np.int32)}) == {}
    spec, shape = silu_with("float16", InputSpec(type="custom"))
    assert flips_of(spec, shape, {"input": np.full((4, 16), np.inf, np.float16)}) == {}


@given(seed=st.integers(0, 2**32), key=st.integers(0, 2**64 - 1), index=st.integers(0, 511))
def test_a_turned_set_keeps_magnitudes_and_whatever_may_not_turn(seed, key, index):
    values = draw(np.random.default_rng(seed), "float16", (3, 11), None)  # 66 bytes: no whole words
    image = np.full(256, 0xA5, np.uint8)
    image[:66] = values.view(np.uint8).reshape(-1)
    flips = flip_image(256, [(slice(0, 66), SIGNS["float16"])])
    before = turned(image, flips, key, index * 32)
    found = before[:66].view(np.float16)
    np.testing.assert_array_equal(np.abs(found), np.abs(values.reshape(-1)))
    np.testing.assert_array_equal(before[64:], image[64:])
    assert (found[:32] != values.reshape(-1)[:32]).any()
    np.testing.assert_array_equal(before, turned(image, flips, key, index * 32))


def test_the_device_fills_sets_as_the_judge_computes_them(toolchain, tmp_path):
    """In a process of its own: a process has one simulated device, and other tests keep theirs."""
    source = tmp_path / "fill.cu"
    source.write_text(LAUNCHER.format(source=HARNESS / "harness.cu"))
    library = compile_library(toolchain, source, tmp_path / "fill.so", "--no-compress")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        pool.submit(fill_and_compare, library).result()


def fill_and_compare(path):
    simulator = Simulator("h200")
    library = simulator.load(path)
    words, sets, key = 100, 3, 0xFEDCBA9876543210
    random = np.random.default_rng(5)
    image = random.integers(0, 256, 8 * words, dtype=np.uint8)
    flips = flip_image(image.size, [(slice(0, 256), SIGNS["float16"]), (slice(512, 640), 1)])
    content = (
        np.zeros(sets * image.size, np.uint8),
        image,
        flips,
        np.array([key], np.uint64).view(np.uint8),
    )
    addresses = [simulator.allocate(part.size) for part in content]
    for address, part in zip(addresses, content, strict=True):
        simulator.write(address, part)
    slab, master, mask, keys = map(ctypes.c_void_p, addresses)
    assert library.function("fill")(slab, master, mask, ctypes.c_uint64(words), keys, sets) == 0
    assert all(launch.fault is None for launch in simulator.take_launches())
    simulator.read(addresses[0], content[0])
    for index, found in enumerate(content[0].reshape(sets, -1)):
        np.testing.assert_array_equal(found, turned(image, flips, key, index * words))


def test_the_shipped_ptx_is_the_source_compiled(toolchain, tmp_path):
    if not toolchain.version.startswith("13.0"):
        pytest.skip("another compiler writes other PTX")
    script = HARNESS.parents[2] / "scripts" / "harness"
    environment = {**os.environ, "NVCC": str(toolchain.nvcc)}
    done = os.spawnve(os.P_WAIT, str(script), [str(script), str(tmp_path)], environment)
    assert done == 0
    for name in ("harness.ptx", "chain.ptx"):
        assert (tmp_path / name).read_text() == (HARNESS / name).read_text()
