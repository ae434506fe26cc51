"""Pods that were let go to their cards, and find them taken.

HAMi's scheduler does not know of seats: until it has bound a pod of ours it may give the cards to
somebody else's, and then that pod, which may have no others, would wait until those end. Its Job
is stopped after a while, and gets other cards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from federation.core.devices.ledger.holding import State as Held
from federation.core.reasons import Reason
from federation.jobs.eviction_note import Eviction
from worker_agent.binder import Binder
from worker_agent.devices import Devices
from worker_agent.facts import Stage
from worker_agent.state import State, stamp

PATIENCE_S = 60.0
"""How long such a pod waits for its cards: whoever has them may end soon."""


class Displaced:
    """Remembers since when which pods cannot have their cards (by UID; seconds since the epoch)."""

    def __init__(self, state: State, devices: Devices) -> None:
        self._state, self._devices = state, devices
        self._since: dict[str, float] = {}

    def due(self) -> float | None:
        """When the patience with one of them ends."""
        return min(self._since.values()) + PATIENCE_S if self._since else None

    def run(self, hosts: Iterable[str], now: float) -> None:
        """Look at hosts of which the use has changed, and at the pods that wait already."""
        if self._devices.binder is not Binder.HAMI:
            return  # kube-scheduler does not look at cards
        ledger = self._devices.ledger
        for pod in {*self._since, *self._unbound(hosts)}:
            why = ledger.obstacle(pod)
            if not why:
                self._since.pop(pod, None)
            elif now >= self._since.setdefault(pod, now) + PATIENCE_S:
                del self._since[pod]
                self._evict(pod, why, now)

    def _unbound(self, hosts: Iterable[str]) -> Iterator[str]:
        """The pods of ours that were let go to a host and are not bound yet."""
        ledger, plans, pods = self._devices.ledger, self._devices.plans, self._devices.pods
        for host in hosts:
            for card in self._devices.nodes.cards(host):
                for owner, holding in ledger.holders(host, card).items():
                    waits = isinstance(owner, str) and holding.state is Held.RESERVED
                    if waits and pods.job(str(owner)) in plans:
                        yield str(owner)

    def _evict(self, pod: str, why: str, now: float) -> None:
        uid = self._devices.pods.job(pod)
        job = self._state.jobs.get(uid)
        if job is None or job.stage is not Stage.RUNNING or self._state.busy(uid):
            return
        holding = self._devices.ledger.holding(pod)
        host = holding.host if holding is not None else "its node"
        text = f"Cards of {host} were given to other pods before its own were bound: {why}"
        self._state.evict(uid, Eviction(Reason.NODE_FAILURES.value, text, stamp(now)))
