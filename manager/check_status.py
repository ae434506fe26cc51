"""The condition Active of MultiKueue's AdmissionChecks, written where it differs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import structlog

from federation.api.meta import wire_time
from federation.api.names import ConditionType
from federation.api.record import condition, find, with_conditions
from federation.core.multikueue_check import CheckActive
from federation.edge.errors import ApiError, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import ADMISSION_CHECKS, Json

log = structlog.get_logger(__name__)


class CheckStatus:
    """Shows what it is told, once: the watch may lag behind the answer to a write."""

    def __init__(self, client: KubeClient, now: Callable[[], datetime]) -> None:
        self._client, self._now = client, now
        self._written: dict[str, tuple[str, CheckActive]] = {}

    async def show(self, obj: Json, found: CheckActive) -> None:
        """Write the condition of a check if it is not that, as far as is known."""
        meta, status = obj["metadata"], obj.get("status") or {}
        active = condition(ConditionType.ACTIVE, found.active, found.reason, found.message)
        current = find(status, ConditionType.ACTIVE) or {}
        same = all(current.get(key) == value for key, value in active.items())
        if same or self._written.get(meta["name"]) == (_mark(obj), found):
            return
        conditions = with_conditions(status, [active], wire_time(self._now()))
        try:
            await self._client.patch(
                ADMISSION_CHECKS,
                meta["name"],
                {"status": {"conditions": conditions}},
                subresource="status",
            )
        except NotFound:
            return
        except ApiError as error:
            log.warning("check.status_not_written", check=meta["name"], error=str(error))
            return
        self._written[meta["name"]] = (_mark(obj), found)


def _mark(obj: Json) -> str:
    """The very object that was looked at: what somebody else writes later is looked at anew."""
    meta = obj["metadata"]
    return f"{meta['uid']}/{meta['resourceVersion']}"
