"""Every name that crosses the wire: labels, annotations, finalizers, condition types, reasons.

The Kueue names are wire formats (its labels, annotations and conditions, so that manifests and
tools keep working); the `fedq.io/` ones are ours. A name is written here once and nowhere else,
except for the words that the core decides in: reasons of a Workload's conditions
(`federation.core.reasons`) and states of its checks (`federation.core.checks`).
"""

from enum import StrEnum
from typing import Final

KUEUE_GROUP: Final = "kueue.x-k8s.io"
KUEUE_VERSION: Final = "v1beta2"
KUEUE_OLD_VERSION: Final = "v1beta1"
KUEUE_API: Final = f"{KUEUE_GROUP}/{KUEUE_VERSION}"
FEDQ_GROUP: Final = "fedq.io"
FEDQ_VERSION: Final = "v1alpha1"
FEDQ_API: Final = f"{FEDQ_GROUP}/{FEDQ_VERSION}"

RESOURCE_IN_USE: Final = "kueue.x-k8s.io/resource-in-use"
"""The finalizer that Kueue sets on Workloads."""

FEDQ_NAMESPACE: Final = "fedq-system"
KUEUE_NAMESPACE: Final = "kueue-system"
UNMANAGED_NAMESPACES: Final = ("kube-system", KUEUE_NAMESPACE, FEDQ_NAMESPACE)
"""Jobs in these namespaces are never queued: the queue must not wait for itself."""

ORIGIN_CONFIGMAP: Final = "fedq-origin"
"""ConfigMap in FEDQ_NAMESPACE by which a management cluster is known: who its manager is."""

KUBECONFIG_KEY: Final = "kubeconfig"
"""Data key of a kubeconfig Secret."""

JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
"""The value of a Job's `managedBy` that means the same as leaving it out."""

DEFAULT_LOCAL_QUEUE: Final = "default"
DEFAULT_POD_SET: Final = "main"


class Label(StrEnum):
    """Label keys."""

    QUEUE_NAME = "kueue.x-k8s.io/queue-name"
    PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
    MAX_EXEC_TIME_SECONDS = "kueue.x-k8s.io/max-exec-time-seconds"
    PREBUILT_WORKLOAD_NAME = "kueue.x-k8s.io/prebuilt-workload-name"
    JOB_UID = "kueue.x-k8s.io/job-uid"
    MANAGED = "kueue.x-k8s.io/managed"
    POD_SET = "kueue.x-k8s.io/podset"
    CLUSTER_QUEUE_NAME = "kueue.x-k8s.io/cluster-queue-name"
    LOCAL_QUEUE_NAME = "kueue.x-k8s.io/local-queue-name"
    POD_GROUP_NAME = "kueue.x-k8s.io/pod-group-name"
    POD_GROUP_POD_INDEX = "kueue.x-k8s.io/pod-group-pod-index"
    MULTIKUEUE_ORIGIN = "kueue.x-k8s.io/multikueue-origin"
    MULTIKUEUE_WORKER_POD = "kueue.x-k8s.io/multikueue-worker-workload-pod"
    CONCURRENT_ADMISSION_PARENT = "kueue.x-k8s.io/concurrent-admission-parent"
    REQUIRE_QUEUE = "fedq.io/require-queue"
    """On a namespace, `"true"`: Jobs without a queue name are refused there."""
    LOCAL = "fedq.io/local"
    """On the management cluster, `"true"`. On a LocalQueue: its jobs run on that cluster, by the
    agent beside the manager. On a job, from its creation for good, and on its Workload: it is that
    agent's, and none of the manager's."""


PODS_OF_COPIES = f"{Label.MULTIKUEUE_WORKER_POD.value}=true"
"""The label selector of pods that a mirrored job has made, on a worker."""


class Annotation(StrEnum):
    """Kueue's annotation keys."""

    ADMISSION_GATED_BY = "kueue.x-k8s.io/admission-gated-by"
    ELASTIC_JOB = "kueue.x-k8s.io/elastic-job"
    WORKLOAD = "kueue.x-k8s.io/workload"
    WORKLOAD_SLICE_NAME = "kueue.x-k8s.io/workload-slice-name"
    WORKLOAD_SLICE_REPLACEMENT_FOR = "kueue.x-k8s.io/workload-slice-replacement-for"
    POD_SET_REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
    POD_SET_PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"
    POD_SET_UNCONSTRAINED_TOPOLOGY = "kueue.x-k8s.io/podset-unconstrained-topology"
    POD_SET_SLICE_REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-slice-required-topology"
    POD_SET_SLICE_SIZE = "kueue.x-k8s.io/podset-slice-size"
    POD_SET_SLICE_CONSTRAINTS = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
    """JSON list of up to three {topology, size}, outermost first; instead of the two above."""
    POD_SET_GROUP_NAME = "kueue.x-k8s.io/podset-group-name"
    POD_GROUP_TOTAL_COUNT = "kueue.x-k8s.io/pod-group-total-count"
    POD_GROUP_FAST_ADMISSION = "kueue.x-k8s.io/pod-group-fast-admission"
    POD_GROUP_SERVING = "kueue.x-k8s.io/pod-group-serving"
    ROLE_HASH = "kueue.x-k8s.io/role-hash"
    RETRIABLE_IN_GROUP = "kueue.x-k8s.io/retriable-in-group"
    IS_GROUP_WORKLOAD = "kueue.x-k8s.io/is-group-workload"
    JOB_MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
    JOB_COMPLETIONS_EQUAL_PARALLELISM = "kueue.x-k8s.io/job-completions-equal-parallelism"
    JOB_OWNER_GVK = "kueue.x-k8s.io/job-owner-gvk"
    JOB_OWNER_NAME = "kueue.x-k8s.io/job-owner-name"
    PREBUILT_WORKLOAD_NAME = "kueue.x-k8s.io/prebuilt-workload-name"
    PRIORITY_BOOST = "kueue.x-k8s.io/priority-boost"
    SAFE_TO_FORCEFULLY_DELETE = "kueue.x-k8s.io/safe-to-forcefully-delete"
    MULTIKUEUE_ORIGIN_UID = "kueue.x-k8s.io/multikueue-origin-uid"


class Mirror(StrEnum):
    """Annotation keys that prove and fence a mirrored Job; only mirror and agent may write them."""

    LOCAL_UID = "fedq.io/local-uid"
    ATTEMPT = "fedq.io/attempt"
    EPOCH = "fedq.io/epoch"
    """Also on the Lease of a cluster, written by the manager: the epoch it is in."""
    QUEUED_AT = "fedq.io/queued-at"
    PRIORITY = "fedq.io/priority"
    REFUSED = "fedq.io/refused"
    DECIDING = "fedq.io/deciding"
    WAITS_FOR = "fedq.io/waits-for"
    """On a copy that has its quota and is not started, by the agent: the admission checks of its
    cluster that it waits for, in words."""
    RETRY_AFTER = "fedq.io/retry-after"
    """Beside REFUSED or EVICTED: for how many seconds it is of no use to offer the job there again,
    or `never`."""
    ADMISSION = "fedq.io/admission"
    RESERVATION = "fedq.io/reservation"
    """What a Job holds that waits for its admission checks; ADMISSION takes its place."""
    RESERVED_AT = "fedq.io/reserved-at"
    ADMITTED_AT = "fedq.io/admitted-at"
    """When a Job was started that had to wait for checks; else that is when it was reserved."""
    EVICTED = "fedq.io/evicted"
    """Why a Job was stopped by its queue (JSON, see `federation.jobs.eviction_note`)."""
    HELD = "fedq.io/held"
    """On a copy, by the agent: it stands still because the lease ended, and why. Not an eviction:
    it goes on with the same attempt when a renewal succeeds, or when it is adopted in a new epoch
    (the manager raises EPOCH on it)."""
    HELD_AT = "fedq.io/held-at"
    """Beside HELD, since when: by the clock of the agent, as the two below."""
    HELD_SECONDS = "fedq.io/held-seconds"
    """On a copy, by the agent: for how long it was held before, in this attempt. That time does not
    count for any limit of time."""
    RESUMED_AT = "fedq.io/resumed-at"
    """On a copy, by the agent: when it went on last after it was held."""
    BREAKS = "fedq.io/breaks"
    """On a copy, by the agent: how often the lease of its cluster may have ended before it was
    started, or went on (Lease.RENEWAL)."""
    REPLICAS = "fedq.io/replicas"
    """On a copy that is held back by having no pods: the numbers that it is started with (JSON)."""
    GROW_TO = "fedq.io/grow-to"
    """On a copy that runs, by the manager: the numbers that its spec is to have instead of those
    that it has, and that ask for more pods (JSON). The agent writes them into the spec once it has
    charged the pods."""
    GROW_REFUSED = "fedq.io/grow-refused"
    """The agent's no to that, with its reason; the manager takes both away."""
    JOB = "fedq.io/job"
    """On the Workload that is offered to plain Kueue: the name of the Job that is to follow."""
    LIVE = "fedq.io/live"
    """On a copy: a hash of those fields of its spec that follow edits while it runs, as they were
    written last."""
    RUNS = "fedq.io/runs"
    """On an object of the management cluster that stays suspended there for good, as the
    controllers of its kind heed no managedBy: it runs on a worker."""


class Lease(StrEnum):
    """Annotation keys on the Lease of a cluster (`fedq-system/<cluster>`), beside Mirror.EPOCH.
    The lease L_W itself is `spec.leaseDurationSeconds`. Written by the manager, read by the agent,
    but for RENEWAL.
    """

    RENEW_SECONDS = "fedq.io/renew-seconds"
    KILL_SECONDS = "fedq.io/kill-seconds"
    """K: what a `stop` job may take to end, its termination grace included."""
    FENCED_AT = "fedq.io/fenced-at"
    """When the manager fenced it (RFC 3339), for people."""
    FENCE_CAUSE = "fedq.io/fence-cause"
    """Why (`federation.core.lease.Cause`)."""
    FENCED_VERSION = "fedq.io/fenced-version"
    """The resourceVersion of the Lease that the fence was put in the place of: whoever saw that one
    knows that no renewal came in between."""
    IDENTITY = "fedq.io/cluster-uid"
    """UID of the namespace kube-system of the physical cluster that the epoch is of."""
    OWN_SINCE = "fedq.io/own-since-epoch"
    """The first epoch of that physical cluster: lower ones are of another one of the same name."""
    CONFIRMED_BELOW = "fedq.io/confirmed-below"
    """Somebody made sure that nothing runs of what was bound in an epoch below this one."""
    RENEWAL = "fedq.io/renewal"
    """What the agent knows as it renews (JSON, see `federation.api.renewal`)."""
    LOWERED_FROM = "fedq.io/lowered-from"
    """What the lease was before the manager's settings shortened it, until a renewal under the new
    value was seen."""


FENCED: Final = "FENCED"
"""`spec.holderIdentity` of a Lease that the manager has fenced."""


class Token(StrEnum):
    """Variables in the environment of every container of a copy; see `federation.jobs.token`."""

    ATTEMPT = "FEDQ_ATTEMPT"
    JOB_UID = "FEDQ_JOB_UID"
    ON_DISCONNECT = "FEDQ_ON_DISCONNECT"
    RERUN_AFTER = "FEDQ_RERUN_AFTER"
    """The limit of `keep`, in seconds, where there is one."""
    GRACE = "FEDQ_GRACE_SECONDS"
    """The termination grace of the pod."""


class Order(StrEnum):
    """Annotation keys by which an operator tells the manager what to do; see
    `federation.api.orders`."""

    CORDON = "fedq.io/cordon"
    """On a MultiKueueCluster: no new work; the value says why."""
    DRAIN = "fedq.io/drain"
    """On a MultiKueueCluster: `graceful` lets what runs end there, `now` moves it."""
    FENCE_CONFIRMED = "fedq.io/fence-confirmed"
    """On a MultiKueueCluster: everything offered in an epoch below this number is dead; somebody
    made sure of it (power off)."""
    FENCE_EVIDENCE = "fedq.io/fence-evidence"
    """Beside it, for people: how they made sure."""
    MOVE_TO = "fedq.io/move-to"
    """On a Workload: run it on this cluster; taken away once it is bound there."""


class Pin(StrEnum):
    """Annotation keys of cards: what was chosen for a Job, and which of it a pod has."""

    DEVICES = "fedq.io/devices"
    """On a Job, written by the agent in the patch that starts it."""
    SEAT = "fedq.io/seat"
    """On a pod, the number of its seat in that."""


class Option(StrEnum):
    """Annotation keys that a user may set on a Job, LocalQueue or ClusterQueue (nearest wins)."""

    ON_DISCONNECT = "fedq.io/on-disconnect"
    RERUN_AFTER = "fedq.io/rerun-after"
    CLUSTERS = "fedq.io/clusters"
    AVOID_CLUSTERS = "fedq.io/avoid-clusters"
    NON_PREEMPTIBLE = "fedq.io/non-preemptible"
    CLUSTER_SELECTOR = "fedq.io/cluster-selector"
    """A label selector over MultiKueueClusters, as kubectl takes it."""
    PREFER_CLUSTERS = "fedq.io/prefer-clusters"
    """Clusters in the order that the job would rather run on them."""
    DATA = "fedq.io/data"
    """Data sets that it reads, `name` or `name=size`; on a MultiKueueCluster, those there."""
    GIVE_UP_AFTER = "fedq.io/give-up-after"


class Trait(StrEnum):
    """Annotation keys of a MultiKueueCluster by which operators describe it."""

    COST_PER_HOUR = "fedq.io/cost-per-hour"
    """`flavor=price` or `flavor/resource=price`, comma-separated."""
    AGENT = "fedq.io/agent"
    """`none`: plain Kueue runs it, without our agent."""


class Controller(StrEnum):
    """Controller names of admission checks; the first is also a Job's `managedBy`."""

    MULTIKUEUE = "kueue.x-k8s.io/multikueue"
    PROVISIONING_REQUEST = "kueue.x-k8s.io/provisioning-request"


class Gate(StrEnum):
    """Scheduling gates of pods."""

    ADMISSION = "kueue.x-k8s.io/admission"
    TOPOLOGY = "kueue.x-k8s.io/topology"
    ELASTIC_JOB = "kueue.x-k8s.io/elastic-job"
    DEVICES = "fedq.io/devices"


class ConditionType(StrEnum):
    """Condition types of a Workload; `Active` and the last one are those of other objects."""

    ACTIVE = "Active"
    QUOTA_RESERVED = "QuotaReserved"
    ADMITTED = "Admitted"
    EVICTED = "Evicted"
    PREEMPTED = "Preempted"
    REQUEUED = "Requeued"
    PODS_READY = "PodsReady"
    FINISHED = "Finished"
    DEACTIVATION_TARGET = "DeactivationTarget"
    BLOCKED_ON_PREEMPTION_GATES = "BlockedOnPreemptionGates"
    SCALED = "fedq.io/Scaled"
    """Ours: whether an elastic job that runs has as many pods as it asks for; only of those that
    had to wait for some."""
    MULTIKUEUE_MANAGER_QUOTA_AUTOMATION = "MultiKueueManagerQuotaAutomation"


class ActiveReason(StrEnum):
    """Reasons of the `Active` condition of queues, checks and clusters."""

    READY = "Ready"
    ACTIVE = "Active"
    UNKNOWN = "Unknown"
    TERMINATING = "Terminating"
    STOPPED = "Stopped"
    # ClusterQueue
    FLAVOR_NOT_FOUND = "FlavorNotFound"
    ADMISSION_CHECK_NOT_FOUND = "AdmissionCheckNotFound"
    ADMISSION_CHECK_INACTIVE = "AdmissionCheckInactive"
    MULTIPLE_MULTIKUEUE_CHECKS = "MultipleMultiKueueAdmissionChecks"
    MULTIKUEUE_CHECK_PER_FLAVOR = "MultiKueueAdmissionCheckAppliedPerFlavor"
    MULTIKUEUE_WITH_PROVISIONING = "MultiKueueWithProvisioningRequest"
    TOPOLOGY_NOT_FOUND = "TopologyNotFound"
    # LocalQueue
    CLUSTER_QUEUE_DOES_NOT_EXIST = "ClusterQueueDoesNotExist"
    CLUSTER_QUEUE_IS_INACTIVE = "ClusterQueueIsInactive"
    # AdmissionCheck of MultiKueue
    SOME_ACTIVE_CLUSTERS = "SomeActiveClusters"
    NO_USABLE_CLUSTERS = "NoUsableClusters"
    BAD_CONFIG = "BadConfig"
    # MultiKueueCluster
    BAD_KUBE_CONFIG = "BadKubeConfig"
    INSECURE_KUBE_CONFIG = "InsecureKubeConfig"
    OTHER_CLUSTER = "OtherCluster"
    BAD_CLUSTER_PROFILE = "BadClusterProfile"
    BAD_REST_CONFIG = "BadRestConfig"
    CLUSTER_PROFILE_DISABLED = "MultiKueueClusterProfileFeatureDisabled"
    CLIENT_CONNECTION_FAILED = "ClientConnectionFailed"
    # Ours
    NOT_READY = "NotReady"
    CONNECTING = "Connecting"
    WORKER_UNAVAILABLE = "WorkerUnavailable"
    MISSING_CUSTOM_RESOURCES = "MissingCustomResources"
    NO_WORKER_REPORT = "NoWorkerReport"
    UNREADABLE_WORKER_REPORT = "UnreadableWorkerReport"
    AGENT_SILENT = "AgentSilent"
    AGENT_PRESENT = "AgentPresent"
    RESERVED_NAME = "ReservedName"
    MANAGEMENT_CLUSTER = "ManagementCluster"
