"""Eight booleans to a byte, the first in the highest bit."""

import numpy as np


def compute(x, working):
    return (np.packbits(x.astype(bool)),)
