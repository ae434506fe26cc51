"""The clock of the lease, and which start of the machine it counts from."""

from __future__ import annotations

import time
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boottime() -> float:
    """Seconds on CLOCK_BOOTTIME: it goes on while the machine sleeps, and nobody can set it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Another one after each start of the machine: readings of the clock before it mean nothing."""
    return _BOOT_ID.read_text().strip()
