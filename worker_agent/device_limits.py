"""What ResourceQuotas let namespaces hold of cards: taken over into the ledger."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import structlog

from federation.core.devices.ledger.ledger import Ledger
from federation.core.devices.ledger.spaces import Limit
from federation.core.devices.quota.namespace import namespace_limits
from federation.core.devices.wire.vendors import Vendors
from federation.edge.informer import Key, Store
from federation.edge.resources import Json

log = structlog.get_logger(__name__)


class Limits(NamedTuple):
    """What one object says."""

    by_vendor: dict[str, Limit]
    warnings: tuple[str, ...]


def limit_store(ledger: Ledger, vendors: Vendors, changed: Callable[[], None]) -> Store[Limits]:
    """Informer handler of ResourceQuotas. `changed` hears that something may fit now."""

    def read(quota: Json) -> Limits | None:
        hard = (quota.get("spec") or {}).get("hard") or {}
        texts = {name: str(amount) for name, amount in hard.items()}
        limits = Limits(*namespace_limits(quota["metadata"]["name"], texts, vendors))
        return limits if any(limits) else None

    def told(key: Key, old: Limits | None, new: Limits | None) -> None:
        namespace, name = key
        ledger.limit(namespace, f"ResourceQuota {name}", new.by_vendor if new else {})
        for warning in new.warnings if new else ():
            log.warning("quota.cards", namespace=namespace, warning=warning)
        changed()

    return Store(read, told)
