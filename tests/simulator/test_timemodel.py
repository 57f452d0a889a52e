"""The time model: its error against measurements, and the direction of its answers."""

import numpy as np
import pytest

from astra_kernels.simulator import (
    Bound,
    Limiter,
    Resources,
    SimulatorOptions,
    load_machine,
    machine_names,
    model_time,
    model_time_us,
    occupancy,
)
from tests.simulator.conftest import random

H200 = load_machine("h200")


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks", "limiter"),
    [
        (1024, 32, 0, 2, Limiter.THREADS),
        (256, 64, 0, 4, Limiter.REGISTERS),
        (128, 255, 0, 2, Limiter.REGISTERS),
        (256, 32, 100 * 1024, 2, Limiter.SHARED_MEMORY),
        (32, 16, 0, 32, Limiter.BLOCKS),
        (1024, 96, 0, 0, Limiter.REGISTERS),
    ],
)
def test_occupancy_as_the_calculator_gives_it(threads, registers, shared, blocks, limiter):
    found = occupancy(H200, threads, registers, shared)
    assert (found.blocks_per_sm, found.limiter) == (blocks, limiter)


def test_machines_load_with_their_sources():
    assert machine_names() == ["a100", "h100", "h200", "l40s"]
    for name in machine_names():
        assert load_machine(name).sources
    with pytest.raises(ValueError, match="h200"):
        load_machine("b300")


def silu_launch(device, norms, rows, width, threads, sample=None):
    out, x = np.zeros((rows, width), np.float16), random((rows, 2 * width), np.float16)
    options = SimulatorOptions(block_sample=sample)
    assert device.run(norms, "silu_and_mul", out, x, rows, width, threads, options=options) == 0
    return device.launch


def test_few_threads_take_longer(device, norms):
    times = [
        model_time_us(silu_launch(device, norms, 64, 8192, threads), H200, Resources(32))
        for threads in (32, 128, 1024)
    ]
    assert times == sorted(times, reverse=True)
    assert times[0] > 2 * times[-1]


def test_low_occupancy_takes_longer(device, norms):
    launch = silu_launch(device, norms, 2048, 2048, 256)
    many, few = (model_time(launch, H200, Resources(registers)) for registers in (32, 250))
    assert few.occupancy.warps_per_sm < many.occupancy.warps_per_sm
    assert few.device_us > many.device_us


def test_more_bytes_take_longer_and_large_ones_are_bound_by_dram(device, norms):
    small = model_time(silu_launch(device, norms, 132, 1024, 128), H200, Resources(32))
    large = model_time(silu_launch(device, norms, 4000, 4096, 256, sample=40), H200, Resources(32))
    assert large.device_us > 5 * small.device_us
    assert large.bound == Bound.DRAM
    assert large.device_us > large.dram_us


def test_bank_conflicts_take_longer(device, norms):
    x = random((2048, 2048))
    times = []
    for pad in (0, 1):
        options = SimulatorOptions(block_sample=50)
        device.run(norms, "transpose", x, np.zeros_like(x), 2048, 2048, pad, options=options)
        times.append(model_time_us(device.launch, H200, Resources(32)))
    assert times[0] > 1.2 * times[1]


def test_a_launch_without_counters_has_no_modelled_time(device, norms):
    out, x = np.zeros((2, 64), np.float16), random((2, 128), np.float16)
    options = SimulatorOptions(counters=False)
    device.run(norms, "silu_and_mul", out, x, 2, 64, 32, options=options)
    with pytest.raises(ValueError, match="counters"):
        model_time(device.launch, H200, Resources(32))


def test_chains_count_what_a_warp_waits_for(device, norms):
    few, many = (silu_launch(device, norms, 8, 4096, threads).counters for threads in (512, 128))
    assert many.chain_clocks > 2 * few.chain_clocks
    assert few.slowest_chain_clocks >= few.chain_clocks
    uneven = silu_launch(device, norms, 8, 4096 + 64, 512).counters
    assert uneven.slowest_chain_clocks > 1.5 * uneven.chain_clocks > few.chain_clocks


def test_blocks_without_work_take_time(device, norms):
    busy = model_time(silu_launch(device, norms, 64, 1024, 128), H200, Resources(32))
    assert busy.block_start_us > 0
    idle = model_time(silu_launch(device, norms, 64, 1024, 1024), H200, Resources(32))
    assert idle.block_start_us == pytest.approx(8 * busy.block_start_us)
