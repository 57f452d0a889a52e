"""Blocks that look alike are told apart by what is around them."""

import numpy as np

from astra_kernels.devices.resemblance import spread
from astra_kernels.simulator.control_flow import ControlFlow

# 1 and 2 look alike; 3 comes after the one, 4 after the other.
SIDES = ControlFlow([(1, 2), (3,), (4,), (5,), (5,), (6,)])


def test_what_comes_behind_decides():
    own = np.eye(6)
    own[1:3, 1:3] = 0.5
    found = spread(own, SIDES, SIDES)
    assert found[1, 1] > found[1, 2]
    assert found[2, 2] > found[2, 1]


def test_what_comes_before_decides():
    own = np.eye(6)
    own[3:5, 3:5] = 0.5
    found = spread(own, SIDES, SIDES)
    assert found[3, 3] > found[3, 4]
    assert found[4, 4] > found[4, 3]


def test_a_graph_resembles_itself_wholly():
    assert np.allclose(np.diag(spread(np.eye(6), SIDES, SIDES)), 1)
