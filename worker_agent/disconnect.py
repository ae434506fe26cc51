"""What a copy says of the end of the lease: its policy, and how long its pods take to end.

What cannot be read counts as what is safe: the copy is stopped when the lease ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from federation.api.duration import DurationError, parse_duration
from federation.api.names import Option
from federation.core.failover import OnDisconnect

GRACE_S = 30
"""What Kubernetes gives pods that ask for nothing else."""


def on_disconnect(annotations: Mapping[str, str]) -> tuple[OnDisconnect, float | None]:
    """The policy, and for `keep` the limit in seconds (None without one). The manager has written
    both on the copy.
    """
    try:
        policy = OnDisconnect(annotations.get(Option.ON_DISCONNECT.value, OnDisconnect.STOP.value))
        text = annotations.get(Option.RERUN_AFTER.value)
        if policy is not OnDisconnect.KEEP or text is None:
            return policy, None
        return policy, _seconds(text)
    except ValueError:
        return OnDisconnect.STOP, None


def _seconds(text: str) -> float:
    """Plain seconds, or a duration such as 24h. Raises ValueError."""
    try:
        seconds = parse_duration(text)
    except DurationError:
        seconds = float(text)
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{text!r} is no time")
    return seconds


def grace_seconds(pod_spec: Mapping[str, Any]) -> int:
    """terminationGracePeriodSeconds of a pod."""
    grace = pod_spec.get("terminationGracePeriodSeconds")
    return grace if isinstance(grace, int) else GRACE_S


def grace_problem(
    policy: OnDisconnect, rerun_after: float | None, grace_s: int, kill_s: float
) -> str:
    """Why a copy cannot be stopped in time when the lease ends; '' if it can, or need not.

    `kill_s` is the bound K of the Lease.
    """
    stops = policy is OnDisconnect.STOP or rerun_after is not None
    if not stops or grace_s <= kill_s:
        return ""
    return (
        f"terminationGracePeriodSeconds is {grace_s}, and when the management cluster cannot be"
        f" reached its pods must have ended within {kill_s:g} s ({policy.value}): shorten it, or"
        " choose another fedq.io/on-disconnect"
    )
