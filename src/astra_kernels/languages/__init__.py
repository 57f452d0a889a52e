"""Turning sources of a kernel language into something a device can load."""
