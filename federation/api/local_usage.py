"""What a LocalQueue used, between its status and the core: `status.fairSharing`.

Kueue's fields. `weightedShare` says what LocalQueues are ordered by, rounded up; the largest int64
stands for one of weight 0.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final

from federation.api.life import moment
from federation.api.local_queue import LocalQueueStatus
from federation.api.meta import wire_time
from federation.core.fair_usage import UsageState
from federation.core.quantity import exact_quantity, format_quantity

MOST: Final = 2**63 - 1


def read_usage(status: LocalQueueStatus) -> UsageState | None:
    """What a status says; None if it says nothing, or no time by which that can age."""
    known = status.fair_sharing and status.fair_sharing.admission_fair_sharing_status
    at = moment(known.last_update) if known else None
    if not known or at is None:
        return None
    amounts = {
        name: float(exact_quantity(str(amount)) * _scale(name))
        for name, amount in known.consumed_resources.items()
    }
    return UsageState(amounts, at)


def write_usage(state: UsageState, weighted: float) -> dict[str, Any] | None:
    """`status.fairSharing` of a LocalQueue whose `weighted` usage this is; None takes it away, as
    long as nothing was sampled.
    """
    if state.sampled_at is None:
        return None
    amounts = {name: _text(name, amount) for name, amount in sorted(state.consumed.items())}
    return {
        "weightedShare": MOST if math.isinf(weighted) else min(MOST, math.ceil(weighted)),
        "admissionFairSharingStatus": {
            "consumedResources": amounts,
            "lastUpdate": wire_time(datetime.fromtimestamp(state.sampled_at, UTC)),
        },
    }


def _scale(resource: str) -> Fraction:
    return Fraction(1000 if resource == "cpu" else 1)


def _text(resource: str, amount: float) -> str:
    """In thousandths where they matter: of one card, one tenth is left after some hours."""
    if resource == "cpu" or amount >= 1000:
        return format_quantity(resource, round(amount))
    thousandths = round(amount * 1000)
    return f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)
