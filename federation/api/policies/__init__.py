"""Admission policies (admissionregistration.k8s.io/v1): what a webhook would otherwise do.

Contract: plain documents, built at import; `federation.api.generate` writes them to `deploy/`.
"""

from collections.abc import Mapping
from typing import Final

from federation.api.names import Controller
from federation.api.policies import checks, jobs, kinds, local, pods, spelling, workloads
from federation.api.policies.build import Documents
from federation.api.policies.default_queue import default_queue

ROLES: Final[Mapping[str, Mapping[str, Documents]]] = {
    "management": {"kinds": kinds.roles("fedq-manager")},
    "worker": {"kinds": kinds.roles("fedq-mirror")},
    "agent": {"kinds": kinds.roles("fedq-agent")},
}
"""Role of a cluster, or of a part of it, to what accounts may do with kinds of jobs there."""

POLICIES: Final[Mapping[str, Mapping[str, Documents]]] = {
    "common": {
        "clusterqueue": checks.cluster_queue(),
        "clusterqueue-checks": checks.on_flavors(),
        "clusterqueue-selector": checks.selectors(),
        "cohort": checks.cohort(),
        "cohort-sharing": checks.cohort_sharing(),
        "resourceflavor": checks.flavor_keys(),
        "spelling-clusterqueue": spelling.cluster_queue(),
        "spelling-multikueuecluster": spelling.multikueue_cluster(),
        "spelling-workload": spelling.workload(),
        "topology": checks.topology(),
        "workload": workloads.pod_sets(),
        "workload-gates": workloads.gates(),
        "workload-status": workloads.status(),
        "workload-templates": workloads.templates(),
    },
    "management": {
        "default-queue": default_queue(Controller.MULTIKUEUE),
        "queue-jobs": jobs.queue_jobs(Controller.MULTIKUEUE),
        **{
            f"queue-{name}": kinds.queue_kind(name, Controller.MULTIKUEUE.value)
            for name in kinds.shapes()
        },
        "card-notes": pods.card_notes(),
        "gate-templates": kinds.gate_templates(),
        "local-fixed": local.fixed(),
        "local-jobs": local.local_jobs(),
        **local.local_kinds(),
        "local-pods": local.local_pods(),
        "local-started": local.started(),
        "no-forgery": jobs.no_forgery(local=True),
        "queue-deployments": kinds.label_deployments(),
        "queue-pods": kinds.gate_pods(),
        "require-queue": jobs.require_queue(),
    },
    "worker": {
        "card-notes": pods.card_notes(),
        "default-queue": default_queue(None),
        "epoch": jobs.epoch_fence(),
        "epoch-rises": jobs.epoch_rises(),
        "no-forgery": jobs.no_forgery(),
        "queue-deployments": kinds.label_deployments(),
        "queue-jobs": jobs.queue_jobs(None),
        "queue-pods": kinds.gate_pods(),
        **{f"queue-{name}": kinds.queue_kind(name, None) for name in kinds.shapes()},
    },
}
"""Role (`common` is for both) to policy to its documents."""
