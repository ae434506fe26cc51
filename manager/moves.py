"""Whether a job that runs may leave for the cluster that an order names."""

from __future__ import annotations

import time

from federation.core.facts import JobState
from manager.clusters import Clusters
from manager.controller import Controller
from manager.outcomes import facts
from manager.placing import Placing


def why_never(controller: Controller, clusters: Clusters, state: JobState, cluster: str) -> str:
    """Why the cluster could not take the job even if nothing ran there; '' if it could. That there
    is no room now is no reason: it may make room for it. Raises Again.
    """
    local, record = facts(state)
    queue, held = controller.queues.cluster_queue(state), record.admission
    if queue is None:
        return state.queue_problem or f"LocalQueue {local.queue} leads to no ClusterQueue here"
    if held is None or len(held.pod_sets) != len(local.pod_sets):  # it leaves for that reason
        return ""
    item = controller.views.pending(local.uid, local, record, queue, record.priority)
    return Placing(controller, clusters, time.time()).why_never_on(item, held, cluster)
