"""What an agent says on a copy beside yes and no: what it waits for, and when to ask again."""

from __future__ import annotations

import math
from collections.abc import Mapping

from federation.api.names import Mirror
from federation.core.dispatch import FOR_GOOD_S

_NEVER = "never"


def waits_for(annotations: Mapping[str, str]) -> str:
    """The admission checks that a copy waits for with its quota; '' if it does not."""
    return annotations.get(Mirror.WAITS_FOR.value, "")


def retry_after(annotations: Mapping[str, str]) -> float | None:
    """For how many seconds it is of no use to offer the job to that cluster again; None if that is
    not said, or cannot be read.
    """
    text = annotations.get(Mirror.RETRY_AFTER.value, "")
    if text == _NEVER:
        return FOR_GOOD_S
    try:
        seconds = float(text)
    except ValueError:
        return None
    return min(seconds, FOR_GOOD_S / 2) if math.isfinite(seconds) and seconds >= 0 else None


def write_retry_after(seconds: float) -> dict[str, str]:
    """The note of it; FOR_GOOD_S is for ever."""
    text = _NEVER if seconds >= FOR_GOOD_S else str(math.ceil(max(seconds, 0.0)))
    return {Mirror.RETRY_AFTER.value: text}
