"""Reading binary files that may be cut short or damaged."""

from __future__ import annotations

import struct
from typing import Any

from astra_kernels.simulator.errors import DamagedLibrary


class Binary:
    """Bytes whose every access is checked.

    Args:
        data: The bytes.
        name: For messages.
    """

    def __init__(self, data: bytes, name: str) -> None:
        self.data = data
        self.name = name

    def damaged(self, what: str) -> DamagedLibrary:
        """The refusal that says what does not fit."""
        return DamagedLibrary(f"{self.name} is cut short or damaged: {what}")

    def unpack(self, form: str, at: int) -> tuple[Any, ...]:
        """The fields of a `struct` format at an offset.

        Raises:
            DamagedLibrary: They are not all inside.
        """
        if at < 0 or at + struct.calcsize(form) > len(self.data):
            raise self.damaged(f"nothing is at byte {at} of {len(self.data)}")
        return struct.unpack_from(form, self.data, at)

    def take(self, at: int, size: int) -> bytes:
        """Bytes from an offset on.

        Raises:
            DamagedLibrary: They are not all inside.
        """
        if at < 0 or size < 0 or at + size > len(self.data):
            raise self.damaged(f"{size} bytes from byte {at} on, of {len(self.data)}")
        return self.data[at : at + size]

    def text(self, at: int) -> str:
        """A name that ends with a zero byte.

        Raises:
            DamagedLibrary: It does not start inside, or does not end.
        """
        end = self.data.find(b"\0", at) if 0 <= at < len(self.data) else -1
        if end < 0:
            raise self.damaged(f"a name at byte {at} of {len(self.data)}")
        return self.data[at:end].decode("utf-8", "replace")
