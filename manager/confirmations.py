"""Orders of operators that confirm a fence: which are new, and what becomes of the others.

An order that is not followed is taken off its cluster, where a later manager would find it; why is
told in the status. This manager never follows it later, be it that it cannot be taken away. One
that names no epoch gets the one that it is for.
"""

from __future__ import annotations

import structlog

from federation.api.names import Order
from federation.api.orders import cluster_orders
from federation.core.confirming import Ordered, Settled
from federation.edge.errors import ApiError, Conflict, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import MULTIKUEUE_CLUSTERS, Json

log = structlog.get_logger(__name__)

_KEY = Order.FENCE_CONFIRMED.value


class Confirmations:
    """Of all clusters, by name. `seen` hears of each change of a MultiKueueCluster."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._fresh: dict[str, str] = {}
        self._refused: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def seen(self, old: Json | None, new: Json | None) -> None:
        """What stands on a cluster when it is first seen may be of any age."""
        obj = new if new is not None else old
        if obj is None:
            return
        name, text = obj["metadata"]["name"], None if new is None else _order(new)
        if new is None:
            self._texts.pop(name, None)
        if text is None:
            self._fresh.pop(name, None)
            self._refused.pop(name, None)
        elif old is not None and _order(old) != text:
            self._fresh[name] = text
            self._refused.pop(name, None)
            self._texts.pop(name, None)

    def order(self, obj: Json) -> Ordered | None:
        """The order that stands on a cluster, unless it was refused already."""
        orders, name, text = cluster_orders(obj), obj["metadata"]["name"], _order(obj)
        if not orders.confirms or self._refused.get(name) == text:
            return None
        return Ordered(orders.confirmed_below, self._fresh.get(name) == text)

    def text(self, obj: Json) -> str:
        """Why the last order was not followed; '' if it was, or that is not known yet."""
        known = str(((obj.get("status") or {}).get("fedq") or {}).get("order") or "")
        shown = "" if _order(obj) is not None else known
        return self._texts.get(obj["metadata"]["name"], shown)

    async def settle(self, obj: Json, settled: Settled | None) -> None:
        """Rewrite an order, or take it away, unless somebody wrote to its cluster meanwhile."""
        name, before = obj["metadata"]["name"], _order(obj)
        if before is None:
            return
        if settled is not None and settled.about == self.order(obj):
            if settled.text is not None:
                log.info("order.settled", cluster=name, order=settled.text, why=settled.why)
                await self._write(obj, {_KEY: settled.text})
                return
            self._refused[name] = before
            self._texts[name] = f"the order {_KEY}={before} was not followed: {settled.why}"
            log.warning("order.refused", cluster=name, order=before, why=settled.why)
        if self._refused.get(name) == before:
            await self._write(obj, {_KEY: None, Order.FENCE_EVIDENCE.value: None})

    async def _write(self, obj: Json, notes: dict[str, str | None]) -> None:
        name, version = obj["metadata"]["name"], obj["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version, "annotations": notes}}
        try:
            await self._client.patch(MULTIKUEUE_CLUSTERS, name, body)
        except (Conflict, NotFound):
            return  # the watch tells what it is now
        except ApiError as error:
            log.warning("order.not_settled", cluster=name, error=str(error))


def _order(obj: Json) -> str | None:
    notes = obj["metadata"].get("annotations") or {}
    return str(notes[_KEY]) if _KEY in notes else None
