"""Devices that are published and claimed (`resource.k8s.io`), in the ledger of all cards.

The scheduler allocates claims; here they are only counted, so that cards which pods also get by
annotations are not given away twice. Cards that nothing but a driver publishes take claims only.
"""

from __future__ import annotations

from federation.core.devices.cards import Host
from federation.core.devices.claims.cards import merged
from federation.core.devices.ledger.claims import Claimed
from federation.core.devices.ledger.ledger import Ledger
from federation.edge.claim_catalog import ClaimCatalog
from federation.edge.informer import Key
from worker_agent.device_nodes import DeviceNodes

FENCE = "claims"
ONLY_CLAIMS = "it is published for resource claims only: no device plugin of its node gives it out"


class DeviceClaims:
    """Follows a catalog of claims. `keys` are namespace and name of allocated claims, by UID."""

    def __init__(self, ledger: Ledger, claims: ClaimCatalog, nodes: DeviceNodes) -> None:
        self.keys: dict[str, Key] = {}
        self._ledger, self._claims, self._nodes = ledger, claims, nodes
        self._uids: dict[Key, str] = {}
        self._hosts: dict[str, Host] = {}
        self._fenced: dict[str, frozenset[str]] = {}
        claims.on_claim, claims.on_devices = self._seen, self._published
        nodes.joined = self._joined

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

    def _seen(self, key: Key) -> None:
        """A claim has another allocation, or none any more."""
        claim, known = self._claims.allocated.get(key), self._uids.pop(key, "")
        if known and (claim is None or claim.uid != known):
            del self.keys[known]
            self._ledger.claim(Claimed(known, ()))
        if claim is not None:
            self._uids[key], self.keys[claim.uid] = claim.uid, key
            holdings = tuple(self._claims.holdings(key))
            self._ledger.claim(Claimed(claim.uid, claim.pods, holdings))
