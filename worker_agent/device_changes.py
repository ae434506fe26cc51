"""What it means that the use of a host has changed: for people, and for Jobs that wait."""

from __future__ import annotations

import structlog

from federation.core.devices.cards import HostUse
from federation.core.devices.fleet.types import Room

log = structlog.get_logger(__name__)


def tell_fences(before: HostUse | None, use: HostUse) -> None:
    """Why nothing new goes to a node or card any more, for whoever has to mend it."""
    if use.fence and (before is None or before.fence != use.fence):
        log.warning("node.closed", node=use.host.name, why=use.fence)
    for uuid, card in use.uses.items():
        if uuid and card.fence and (before is None or before.use(uuid).fence != card.fence):
            log.warning("card.closed", node=use.host.name, card=uuid, why=card.fence)


def easier(before: HostUse, use: HostUse, known: Room, room: Room) -> bool:
    """Whether a pod may fit on the host now that did not before."""
    if before.host != use.host or (before.fence and before.fence != use.fence):
        return True
    if any(room.free.get(name, 0) > free for name, free in known.free.items()):
        return True
    if (known.labels, known.taints, known.ready) != (room.labels, room.taints, room.ready):
        return True
    return any(_less(use, uuid, before) for uuid in before.uses)


def _less(use: HostUse, uuid: str, before: HostUse) -> bool:
    new, old = use.use(uuid), before.use(uuid)
    eased = (old.closed and not new.closed) or (old.fence and old.fence != new.fence)
    return bool(eased) or any(n < o for n, o in zip(new.amount, old.amount, strict=True))
