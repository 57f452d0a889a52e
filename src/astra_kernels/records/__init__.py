"""Frozen, validated records that cross every boundary; JSON in, JSON out, no I/O.

`evaluation` and `dtypes` are standard library only, so that the light tier can build outcomes on a
GPU machine that has no pydantic; the other modules validate with pydantic at birth. Import the module
you need: this package exports nothing.
"""
