"""Memory that crosses to a child: sealed images going in, fixed-size results coming back."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
from collections.abc import Callable

import numpy as np

from astra_kernels.errors import MachineFault

_SEAL_SIZE = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
_SEAL_ALL = _SEAL_SIZE | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL


def sealed(name: str, content: bytes | bytearray | memoryview) -> int:
    """A file descriptor whose content nobody can change any more.

    Raises:
        MachineFault: memory is exhausted.
    """
    descriptor = _create(name)
    view = memoryview(content)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEAL_ALL)
    except OSError as error:
        os.close(descriptor)
        raise MachineFault(f"no memory for {len(content)} bytes of inputs: {error}") from error
    return descriptor


def sealed_image(name: str, size: int, fill: Callable[[np.ndarray], None]) -> int:
    """A file descriptor of `size` bytes that `fill` writes once; then nobody can change them any more.

    Raises:
        MachineFault: memory is exhausted.
    """
    descriptor = result_area(name, size)
    fill(
        mapped(descriptor, writable=True)
    )  # its mapping ends with it: a mapped file cannot be sealed
    try:
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL)
    except OSError as error:
        os.close(descriptor)
        raise MachineFault(f"memory cannot be sealed: {error}") from error
    return descriptor


def result_area(name: str, size: int) -> int:
    """A writable file descriptor of a size that nobody can change (so reading it cannot fault).

    Raises:
        MachineFault: memory is exhausted.
    """
    descriptor = _create(name)
    try:
        os.ftruncate(descriptor, size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEAL_SIZE)
    except OSError as error:
        os.close(descriptor)
        raise MachineFault(f"no memory for {size} bytes of outputs: {error}") from error
    return descriptor


def read_all(descriptor: int) -> bytearray:
    """The whole content of a memory file, in memory that can be wiped."""
    content = bytearray(os.fstat(descriptor).st_size)
    os.preadv(descriptor, [content], 0)
    return content


def taken_over(descriptor: int, *, writable: bool = False) -> np.ndarray:
    """The content as an array of bytes for the rest of the process; no descriptor of it remains.

    (`mmap.mmap` keeps a copy of the descriptor, which foreign code in the process could find and use.)

    Raises:
        MachineFault: there is no address space left.
    """
    size = os.fstat(descriptor).st_size
    if size == 0:
        os.close(descriptor)
        return np.empty(0, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    address = libc.mmap(
        None, ctypes.c_size_t(size), access, mmap.MAP_SHARED, descriptor, ctypes.c_long(0)
    )
    if address in (None, ctypes.c_void_p(-1).value):
        raise MachineFault(f"no memory for {size} bytes: {os.strerror(ctypes.get_errno())}")
    os.close(descriptor)
    return np.ctypeslib.as_array((ctypes.c_ubyte * size).from_address(address))


def mapped(descriptor: int, *, writable: bool = False) -> np.ndarray:
    """The content as an array of bytes; it is unmapped when the last view of it is gone."""
    size = os.fstat(descriptor).st_size
    if size == 0:
        return np.empty(0, np.uint8)
    access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
    return np.frombuffer(mmap.mmap(descriptor, size, access=access), np.uint8)


def _create(name: str) -> int:
    try:
        return os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as error:
        raise MachineFault(f"cannot create a memory file: {error}") from error
