"""Nodes as hosts of cards: what they register is taken over into the ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import structlog

from federation.core.devices.cards import Card, Host
from federation.core.devices.inventory.inventory import carried, read_host
from federation.core.devices.inventory.node_facts import NodeFacts
from federation.core.devices.inventory.node_groups import NodeGroup
from federation.core.devices.ledger.ledger import Ledger
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.devices.wire.vendors import Vendors
from federation.edge.informer import Store
from federation.edge.resources import Json
from worker_agent.handshakes import Handshakes
from worker_agent.nodes import read_node
from worker_agent.rooms import Rooms

log = structlog.get_logger(__name__)

INVENTORY = "inventory"


class DeviceNodes:
    """Informer handler of nodes. `changed` hears that something may fit now, `on_cards` that there
    are other cards than before.
    """

    def __init__(
        self,
        ledger: Ledger,
        rooms: Rooms,
        changed: Callable[[], None],
        clock: Callable[[], float],
        groups: tuple[NodeGroup, ...] = (),
        vendors: Vendors = VENDORS,
    ) -> None:
        self._ledger, self._rooms, self._changed = ledger, rooms, changed
        self._clock, self._groups, self._vendors = clock, groups, vendors
        self.handshakes = Handshakes(vendors)
        self.on_cards: Callable[[], None] = lambda: None
        self.joined: Callable[[Host], Host] = lambda host: host
        """Adds the cards that a node shows otherwise than by registering them."""
        self._hosts: dict[str, Host] = {}
        self._registered: dict[str, Host] = {}
        self._cards: dict[str, Mapping[str, Card]] = {}
        self._problems: dict[str, tuple[str, ...]] = {}
        self._facts: Store[NodeFacts] = Store(facts_of, self._seen)
        self.vendors: set[str] = set()
        """Keys of the vendors whose cards were ever seen here, also by an agent before this one."""

    def on_list(self, items: Sequence[Json], resource_version: str) -> None:
        """See Handler."""
        present = {item["metadata"]["name"] for item in items}
        for name in self._rooms.nodes.keys() - present:
            self._rooms.drop_node(name)
        for item in items:
            self._rooms.put_node(read_node(item))
        self._facts.on_list(items, resource_version)

    def on_event(self, type: str, obj: Json) -> None:
        """See Handler."""
        before = len(self._rooms.changed)
        if type == "DELETED":
            self._rooms.drop_node(obj["metadata"]["name"])
        else:
            self._rooms.put_node(read_node(obj))
        self._facts.on_event(type, obj)
        if len(self._rooms.changed) != before:
            self._changed()

    def cards(self, host: str) -> Mapping[str, Card]:
        """The cards of a host, by UUID."""
        return self._cards.get(host, {})

    def hosts(self) -> Mapping[str, Host]:
        """All hosts that have cards, by name."""
        return self._hosts

    def problems(self, host: str) -> tuple[str, ...]:
        """What people should know of a host."""
        return self._problems.get(host, ())

    def look_again(self, name: str) -> None:
        """A node shows other cards now."""
        facts = self._facts.items.get(("", name))
        if facts is not None:
            self._seen(None, facts, facts)

    def wake(self, now: float) -> None:
        """Look at the nodes again of which time may say something."""
        for name in self.handshakes.overdue(now):
            self.look_again(name)

    def _seen(self, key: object, old: NodeFacts | None, new: NodeFacts | None) -> None:
        if new is None:
            if old is not None:
                self.handshakes.forget(old.name)
                self._registered.pop(old.name, None)
                self._drop(old.name)
            return
        lost = self.handshakes.lost(new, self._clock())
        new = replace(new, lost=lost) if lost else new
        reading = read_host(new, self._groups, self._vendors)
        self.vendors |= reading.unread
        registered = carried(reading, self._registered.get(new.name))
        self._registered[new.name], host = registered, self.joined(registered)
        self._set_fence(new.name, reading.fence)
        if self._problems.get(new.name, ()) != reading.problems:
            self._problems[new.name] = reading.problems
            for problem in reading.problems:
                log.warning("node.cards", node=new.name, problem=problem)
        if not host.cards:
            self._drop(new.name)
            return
        if self._hosts.get(new.name) != host:
            self._hosts[new.name] = host
            self.on_cards()
        self._cards[new.name] = {card.uuid: card for card in host.cards}
        self.vendors |= {card.vendor for card in host.cards}
        self._ledger.set_host(host)
        self._changed()

    def _set_fence(self, name: str, why: str) -> None:
        if why:
            self._ledger.fence(name, why, key=INVENTORY)
        else:
            self._ledger.unfence(name, key=INVENTORY)

    def _drop(self, name: str) -> None:
        if self._hosts.pop(name, None) is not None:
            self._cards.pop(name)
            self._ledger.drop_host(name)
            self.on_cards()
            self._changed()


def facts_of(node: Json) -> NodeFacts:
    """What a node says that has to do with its cards."""
    meta, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    return NodeFacts(
        name=meta["name"],
        annotations=meta.get("annotations") or {},
        labels=meta.get("labels") or {},
        capacity={k: str(v) for k, v in (status.get("capacity") or {}).items()},
        allocatable={k: str(v) for k, v in (status.get("allocatable") or {}).items()},
        unschedulable=bool(spec.get("unschedulable")),
    )
