"""Epochs as they are written, in annotations, in orders and in the ConfigMap of a worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from federation.api.names import Mirror

DIGITS = 9
"""More are nonsense: an epoch grows by one when a cluster is given up."""


def read_epoch(text: object) -> int:
    """The number; 0 for what is none, or has too many digits."""
    plain = str(text)
    sound = plain.isascii() and plain.isdecimal() and len(plain) <= DIGITS
    return int(plain) if sound else 0


def epoch_of(obj: Mapping[str, Any]) -> int:
    """The epoch that a Lease or a copy is marked with; 0 without one."""
    return read_epoch((obj["metadata"].get("annotations") or {}).get(Mirror.EPOCH.value, ""))
