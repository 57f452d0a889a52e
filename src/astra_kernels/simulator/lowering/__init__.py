"""From PTX to the executor's programs."""

from astra_kernels.simulator.lowering.encode import EncodedKernel, encode_kernel, fill_constants
from astra_kernels.simulator.lowering.lower import LoweredKernel, lower_kernel

__all__ = ["EncodedKernel", "LoweredKernel", "encode_kernel", "fill_constants", "lower_kernel"]
