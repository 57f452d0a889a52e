"""Reading PTX."""

from astra_kernels.simulator.ptx.parser import parse_body, parse_module

__all__ = ["parse_body", "parse_module"]
