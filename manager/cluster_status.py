"""Shows how clusters stand: condition Active and `status.fedq` of their MultiKueueCluster."""

from __future__ import annotations

import structlog

from federation.api.meta import wire_time
from federation.api.names import ConditionType
from federation.api.record import condition, find, with_conditions
from federation.core.health import Brake, Verdict
from federation.edge.errors import ApiError, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import MULTIKUEUE_CLUSTERS, Json
from manager.clock import Clock, Dial
from manager.protocol import Health

log = structlog.get_logger(__name__)


class ClusterStatus:
    """Writes what differs from what is there, as the watch shows it or an answer to a write."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self.dial = Dial(clock)
        self._client, self._clock = client, clock
        self._answers: dict[str, Json] = {}
        self._phases: dict[str, tuple[str, str]] = {}

    def text(self, verdict: Verdict) -> str:
        """Why a cluster stands as it does and what comes next, with times, in a sentence."""
        parts = [verdict.cause]
        if verdict.since is not None:
            parts.append(f" since {self._at(verdict.since)}")
        if verdict.next is not None:
            parts.append(f"; next: {verdict.next.what}")
            if verdict.next.at < float("inf"):
                parts.append(f" at {self._at(verdict.next.at)}")
        return "".join(parts)

    def _at(self, reading: float) -> str:
        return wire_time(self.dial.time(reading))

    def fedq(self, obj: Json, verdict: Verdict, tier: str, brake: Brake) -> dict[str, object]:
        """`status.fedq` of a cluster."""
        step = verdict.next
        timed = step is not None and step.at < float("inf")
        return {
            "phase": verdict.phase.value,
            "since": self._since(obj, verdict.phase.value),
            "next": step.what if step else None,
            "nextAt": self._at(step.at) if step and timed else None,
            "tier": tier,
            "epoch": verdict.standing.epoch,
            "message": self.text(verdict) or None,
            "brake": brake.reason or None,
        }

    def _since(self, obj: Json, phase: str) -> str:
        """When the phase began: one that was shown before a restart goes on."""
        name, known = obj["metadata"]["name"], (obj.get("status") or {}).get("fedq") or {}
        before = self._phases.get(name) or (known.get("phase", ""), known.get("since", ""))
        if before[0] != phase or not before[1]:
            before = (phase, wire_time(self._clock.wall()))
        self._phases[name] = before
        return before[1]

    async def show(self, obj: Json, health: Health, fedq: dict[str, object]) -> None:
        """Write the condition Active and `status.fedq` of a cluster where they differ."""
        name = obj["metadata"]["name"]
        status = self._newest(obj).get("status") or {}
        active = condition(ConditionType.ACTIVE, health.ok, health.reason, health.message)
        current, body = find(status, ConditionType.ACTIVE), dict[str, object]()
        if current is None or any(current.get(key) != value for key, value in active.items()):
            now = wire_time(self._clock.wall())
            body["conditions"] = with_conditions(status, [active], now)
        known = status.get("fedq") or {}
        if any(known.get(key) != value for key, value in fedq.items()):
            body["fedq"] = fedq  # None takes a field away
        if not body:
            return
        try:
            self._answers[name] = await self._client.patch(
                MULTIKUEUE_CLUSTERS, name, {"status": body}, subresource="status"
            )
        except NotFound:
            self._answers.pop(name, None)
        except ApiError as error:
            log.warning("cluster.status_not_written", cluster=name, error=str(error))

    def _newest(self, obj: Json) -> Json:
        """The object, or the answer to the last write if the watch lags behind that."""
        meta, answer = obj["metadata"], self._answers.get(obj["metadata"]["name"])
        if answer is None or answer["metadata"]["uid"] != meta["uid"]:
            return obj
        version = int(answer["metadata"]["resourceVersion"])
        return answer if version > int(meta["resourceVersion"]) else obj
