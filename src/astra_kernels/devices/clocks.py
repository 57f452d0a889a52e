"""What a GPU's clock does while it is timed, asked of NVML (libnvidia-ml, part of the driver).

https://docs.nvidia.com/deploy/nvml-api names the functions and the bits of the reasons.
"""

from __future__ import annotations

import ctypes
import threading
import time
from dataclasses import dataclass, field

_SM_CLOCK = 1
_THROTTLING = {
    0x04: "software power cap",
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
_EVERY_S = 0.05
_DRIFT = 0.03
"""A clock that is further from the median than this spoils the rounds around it."""


@dataclass(frozen=True)
class ClockSample:
    """One look at the clock."""

    at: float
    """Seconds of the machine's monotonic clock."""
    sm_mhz: int
    throttling: str
    """Why the clock is held down; "" when it is not."""


@dataclass
class ClockRecord:
    """The clock over some time."""

    samples: list[ClockSample] = field(default_factory=list)
    unavailable: str = ""
    """Why there are no samples; "" when there are."""

    @property
    def median_mhz(self) -> int:
        """The typical clock; 0 without samples."""
        clocks = sorted(s.sm_mhz for s in self.samples)
        return clocks[len(clocks) // 2] if clocks else 0

    @property
    def reasons(self) -> tuple[str, ...]:
        """Every reason for which the clock was held down."""
        return tuple(dict.fromkeys(s.throttling for s in self.samples if s.throttling))

    def spoiled(self, at: float) -> bool:
        """Whether a round that ended `at` ran while the clock was held down or away from its median."""
        median = self.median_mhz
        return any(
            s.throttling or abs(s.sm_mhz - median) > _DRIFT * median
            for s in self.samples
            if abs(s.at - at) <= _EVERY_S
        )


class ClockWatch:
    """Looks at the clock from a thread of its own for the length of a `with` block."""

    def __init__(self, ordinal: int) -> None:
        self.record = ClockRecord()
        self._ordinal = ordinal
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, name="clock", daemon=True)

    def __enter__(self) -> ClockRecord:
        self._thread.start()
        return self.record

    def __exit__(self, *reason: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
            if code := library.nvmlInit_v2():
                self.record.unavailable = f"nvmlInit: code {code}"
                return
            device = ctypes.c_void_p()
            library.nvmlDeviceGetHandleByIndex_v2(self._ordinal, ctypes.byref(device))
            while not self._done.wait(_EVERY_S):
                self._sample(library, device)
            library.nvmlShutdown()
        except (OSError, AttributeError) as error:
            self.record.unavailable = f"NVML: {error}"

    def _sample(self, library: ctypes.CDLL, device: ctypes.c_void_p) -> None:
        clock, reasons = ctypes.c_uint(), ctypes.c_ulonglong()
        codes = (
            library.nvmlDeviceGetClockInfo(device, _SM_CLOCK, ctypes.byref(clock)),
            library.nvmlDeviceGetCurrentClocksThrottleReasons(device, ctypes.byref(reasons)),
        )
        if any(codes):
            self.record.unavailable = f"NVML: codes {codes}"
            return
        why = [name for bit, name in _THROTTLING.items() if reasons.value & bit]
        sample = ClockSample(time.monotonic(), clock.value, ", ".join(why))
        self.record.samples.append(sample)
