"""Devices that are published and claimed (`resource.k8s.io`), in the ledger of all cards.

The scheduler allocates claims; here they are only counted, so that cards which pods also get by
annotations are not given away twice. Cards that nothing but a driver publishes take claims only.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection

from federation.core.devices.cards import Host
from federation.core.devices.claims_cards import merged
from federation.core.devices.claims_holdings import beyond
from federation.core.devices.holding import Holding
from federation.core.devices.ledger import Ledger
from federation.core.devices.observed import ObservedPod
from federation.edge.claim_catalog import ClaimCatalog
from federation.edge.informer import Key
from worker_agent.device_nodes import DeviceNodes
from worker_agent.device_watch import DevicePods

FENCE = "claims"
ONLY_CLAIMS = "it is published for resource claims only: no device plugin of its node gives it out"


class DeviceClaims:
    """Follows a catalog of claims. `keys` are namespace and name of each claim, by its owner in the
    ledger.
    """

    def __init__(
        self, ledger: Ledger, claims: ClaimCatalog, nodes: DeviceNodes, pods: DevicePods
    ) -> None:
        self.keys: dict[str, Key] = {}
        self._ledger, self._claims, self._nodes = ledger, claims, nodes
        self._owners: dict[Key, dict[str, str]] = {}
        self._of_pod: dict[str, set[Key]] = {}
        self._pods_of: dict[Key, tuple[str, ...]] = {}
        self._hosts: dict[str, Host] = {}
        self._fenced: dict[str, frozenset[str]] = {}
        self._count = itertools.count()
        claims.on_claim, claims.on_devices = self._seen, self._published
        nodes.joined, pods.others, pods.on_observed = self._joined, self._all, self._pod_seen

    # Cards

    def _published(self) -> None:
        """Devices have changed, and with them what claims hold."""
        before, self._hosts = self._hosts, dict(self._claims.hosts)
        for name in before.keys() | self._hosts.keys():
            if before.get(name) != self._hosts.get(name):
                self._nodes.look_again(name)
        for key in list(self._claims.allocated):
            self._seen(key)

    def _joined(self, registered: Host) -> Host:
        """A node with the cards that it registers, and those that it publishes."""
        published = self._hosts.get(registered.name)
        cards = frozenset(card.uuid for card in published.cards) if published else frozenset()
        alone = cards - {card.uuid for card in registered.cards}
        for uuid in self._fenced.pop(registered.name, frozenset()) - alone:
            self._ledger.unfence(registered.name, uuid, FENCE)
        for uuid in alone:
            self._ledger.fence(registered.name, ONLY_CLAIMS, uuid, FENCE)
        if alone:
            self._fenced[registered.name] = alone
        return merged(registered, published)

    # Claims

    def _all(self) -> Collection[str]:
        return self.keys.keys()

    def _pod_seen(self, uid: str) -> None:
        """What a pod holds by its annotations may have changed."""
        for key in tuple(self._of_pod.get(uid, ())):
            self._seen(key)

    def _seen(self, key: Key) -> None:
        claim = self._claims.allocated.get(key)
        pods = claim.pods if claim else ()
        self._set_pods(key, pods)
        others = [held for pod in pods if (held := self._ledger.holding(pod)) is not None]
        owners, before = {}, self._owners.pop(key, {})
        for holding in self._claims.holdings(key):
            owner = before.pop(holding.host, "") or f"claim/{holding.owner}#{next(self._count)}"
            owners[holding.host] = owner
            self.keys[owner] = key
            self._ledger.observe(_observed(owner, holding, beyond(holding, others)))
        for owner in before.values():
            self.keys.pop(owner)
            self._ledger.release(owner)
        if owners:
            self._owners[key] = owners

    def _set_pods(self, key: Key, pods: tuple[str, ...]) -> None:
        for pod in self._pods_of.pop(key, ()):
            self._of_pod[pod].discard(key)
            if not self._of_pod[pod]:
                del self._of_pod[pod]
        for pod in pods:
            self._of_pod.setdefault(pod, set()).add(key)
        if pods:
            self._pods_of[key] = pods


def _observed(owner: str, holding: Holding, left: Holding | None) -> ObservedPod:
    """A claim as the ledger sees holders. A claim that is allocated again is a new owner, as one
    that was released never comes back there.
    """
    return ObservedPod(
        uid=owner,
        namespace=holding.namespace,
        roles=holding.roles,
        node=holding.host,
        placed_on=holding.host,
        allocation=left.allocation if left else (),
    )
