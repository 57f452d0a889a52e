"""Astra makes an existing CUDA kernel faster and hands back the evidence to merge it."""

__version__ = "0.1.0"
