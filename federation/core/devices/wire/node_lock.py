"""The lock by which HAMi lets one pod at a time be handed its cards on a node."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from federation.core.devices.wire.undecodable import UndecodableError, shown

LOCK: Final = "hami.io/mutex.lock"
CAMBRICON_LOCK: Final = "cambricon.com/dsmlu.lock"
EXPIRES_S: Final = 300.0
CAMBRICON_EXPIRES_S: Final = 120.0
_RFC3339: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII
)


@dataclass(frozen=True, slots=True)
class NodeLock:
    """Since when, and for which pod; both '' in the old form, which says the time only."""

    since: datetime
    namespace: str = ""
    pod: str = ""

    def expired(self, now: datetime, after_s: float = EXPIRES_S) -> bool:
        """Whether it no longer counts. Its owner may be gone long before."""
        return (now - self.since).total_seconds() > after_s


def decode(text: str) -> NodeLock:
    """`TIME,NAMESPACE,POD`, or a time alone. Raises UndecodableError."""
    parts = text.split(",") if len(text) < 1000 else []
    if len(parts) not in (1, 3):
        said = f"{shown(text)} has {len(parts)} parts" if parts else "it is too long"
        raise UndecodableError(f"{said}: a lock is TIME,NAMESPACE,POD or a time")
    if not _RFC3339.fullmatch(parts[0]):
        raise UndecodableError(f"{shown(parts[0])} is no time like 2026-01-02T03:04:05Z")
    try:
        since = datetime.fromisoformat(parts[0])
    except ValueError as error:
        raise UndecodableError(f"{shown(parts[0])}: {error}") from None
    if len(parts) == 3 and not all(parts[1:]):
        raise UndecodableError(f"{shown(text)} names no pod")
    return NodeLock(since, *parts[1:])


def encode(lock: NodeLock) -> str:
    """The text, in seconds."""
    time = lock.since.isoformat(timespec="seconds").replace("+00:00", "Z")
    return f"{time},{lock.namespace},{lock.pod}" if lock.pod else time
