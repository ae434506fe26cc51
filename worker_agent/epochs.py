"""The epoch of this cluster, kept where its API server checks it: ConfigMap fedq-epoch.

The admission policy fedq-epoch refuses copies of lower epochs from the moment it is raised. It is
never lowered.
"""

from __future__ import annotations

from federation.api.epochs import read_epoch
from federation.api.names import FEDQ_NAMESPACE
from federation.api.policies.jobs import EPOCH_CONFIG_MAP
from federation.edge.errors import AlreadyExists, Conflict, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import CONFIGMAPS

ATTEMPTS = 5


class Epochs:
    """Reads and raises it."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def raise_to(self, epoch: int) -> int:
        """Raise it, unless it is as high already; returns what it is then. Raises ApiError."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._raise(epoch)
            except (AlreadyExists, Conflict, NotFound):  # somebody else wrote it
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    async def _raise(self, epoch: int) -> int:
        try:
            found = await self._client.get(CONFIGMAPS, EPOCH_CONFIG_MAP, FEDQ_NAMESPACE)
        except NotFound:
            meta = {"name": EPOCH_CONFIG_MAP, "namespace": FEDQ_NAMESPACE}
            body = {"metadata": meta, "data": {"epoch": str(epoch)}}
            await self._client.create(CONFIGMAPS, body)
            return epoch
        known = read_epoch((found.get("data") or {}).get("epoch", ""))
        if known >= epoch:
            return known
        data = {**(found.get("data") or {}), "epoch": str(epoch)}
        await self._client.update(CONFIGMAPS, {**found, "data": data})
        return epoch
