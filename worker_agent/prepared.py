"""Deletes Ray clusters that KubeRay has made of RayServices while these waited, once they start.

KubeRay 1.6 resumes none of them: it looks for the head of the one that is to serve, finds no pod,
and gets no further (`updateHeadPodServeLabel`). When it is gone, another one is made of the
RayService as it is now.
"""

from __future__ import annotations

from collections import defaultdict

import structlog

from federation.api.kinds.paths import first
from federation.api.kinds.table import ROWS
from federation.edge.errors import ApiError, Conflict, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import Json, resource_of
from worker_agent.agent import Agent
from worker_agent.worklist import Worklist

log = structlog.get_logger(__name__)

RETRY_S = 1.0
CLUSTERS = resource_of(next(row for row in ROWS if row.kind == "RayCluster"))


class Prepared:
    """Looks at a RayService when it changes, or a suspended cluster of it does."""

    def __init__(self, client: KubeClient, agent: Agent) -> None:
        self._client, self._agent = client, agent
        self._clusters: defaultdict[str, dict[str, Json]] = defaultdict(dict)
        """Those that are suspended, by the UID of their RayService and their own."""
        self._services = Worklist(self._delete)
        self._told, agent.state.on_change = agent.state.on_change, self._changed

    async def run(self) -> None:
        """Until cancelled."""
        await self._services.run()

    def see(self, type: str, part: Json) -> None:
        """A part of a job was listed (as ADDED), or changed."""
        owner, uid = _service(part), part["metadata"]["uid"]
        if not owner:
            return
        self._clusters[owner].pop(uid, None)
        if type != "DELETED" and first(part, ("spec", "suspend")) is True:
            self._clusters[owner][uid] = part
            self._services.mark(owner)
        if not self._clusters[owner]:
            del self._clusters[owner]

    def _changed(self, uid: str) -> None:
        self._told(uid)
        if uid in self._clusters:
            self._services.mark(uid)

    async def _delete(self, service: str) -> float | None:
        """Delete those of a RayService that was started; see `Look`."""
        body = self._agent.body(service)
        if body is None or self._agent.book.kinds.of(body).suspended(body):
            return None
        for cluster in list(self._clusters.get(service, {}).values()):
            meta = cluster["metadata"]
            try:
                await self._client.delete(
                    CLUSTERS,
                    meta["name"],
                    meta["namespace"],
                    uid=meta["uid"],
                    resource_version=meta["resourceVersion"],
                )
            except (Conflict, NotFound):
                continue  # the watch tells what became of it
            except ApiError as error:
                log.warning("cluster.not_deleted", cluster=meta["name"], why=str(error))
                return RETRY_S  # the API server refused; nothing will announce better
            log.info("cluster.deleted", cluster=meta["name"], why="its RayService waited then")
        return None


def _service(part: Json) -> str:
    """The UID of the RayService that a part was made of; '' if it was not."""
    owners = part["metadata"].get("ownerReferences") or ()
    found = (
        str(owner["uid"])
        for owner in owners
        if owner.get("controller")
        and owner.get("kind") == "RayService"
        and str(owner.get("apiVersion")).startswith("ray.io/")
    )
    return next(found, "")
