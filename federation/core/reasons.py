"""The reasons of a Workload's conditions: one list for the core, the wire and the programs.

Source: the admission specification, section 2.1; the last groups are ours.
"""

from enum import StrEnum


class Reason(StrEnum):
    """Reasons of Workload conditions, by condition; a value says the same wherever it stands."""

    # QuotaReserved and Admitted
    QUOTA_RESERVED = "QuotaReserved"
    ADMITTED = "Admitted"
    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    TOPOLOGY_PLACEMENT_FAILED = "TopologyPlacementFailed"
    WAITING_FOR_PREEMPTED_WORKLOADS = "WaitingForPreemptedWorkloads"
    MISCONFIGURED = "Misconfigured"
    SUSPENDED = "Suspended"
    PENDING_EVALUATION = "PendingEvaluation"
    WAITING_FOR_PODS_READY = "WaitingForPodsReady"
    ADMISSION_GATED = "AdmissionGated"
    ON_HOLD = "OnHold"
    NO_RESERVATION = "NoReservation"
    UNSATISFIED_ADMISSION_CHECKS = "UnsatisfiedAdmissionChecks"
    PENDING_DELAYED_TOPOLOGY_REQUESTS = "PendingDelayedTopologyRequests"
    # Evicted
    PREEMPTED = "Preempted"
    PODS_READY_TIMEOUT = "PodsReadyTimeout"
    ADMISSION_CHECK = "AdmissionCheck"
    CLUSTER_QUEUE_STOPPED = "ClusterQueueStopped"
    LOCAL_QUEUE_STOPPED = "LocalQueueStopped"
    NODE_FAILURES = "NodeFailures"
    DEACTIVATED = "Deactivated"
    FLAVOR_MIGRATION = "FlavorMigration"
    EVICTED_ON_MANAGER_CLUSTER = "EvictedOnManagerCluster"
    CLUSTER_LOST = "ClusterLost"
    CLUSTER_DRAINED = "ClusterDrained"
    MOVED = "Moved"
    # Preempted
    IN_CLUSTER_QUEUE = "InClusterQueue"
    IN_COHORT_RECLAMATION = "InCohortReclamation"
    IN_COHORT_FAIR_SHARING = "InCohortFairSharing"
    IN_COHORT_RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    # Requeued
    REACTIVATED = "Reactivated"
    BACKOFF_FINISHED = "BackoffFinished"
    CLUSTER_QUEUE_RESTARTED = "ClusterQueueRestarted"
    LOCAL_QUEUE_RESTARTED = "LocalQueueRestarted"
    # PodsReady
    STARTED = "Started"
    RECOVERED = "Recovered"
    WAIT_FOR_START = "WaitForStart"
    WAIT_FOR_RECOVERY = "WaitForRecovery"
    # Finished
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    OUT_OF_SYNC = "OutOfSync"
    OWNER_NOT_FOUND = "OwnerNotFound"
    WORKLOAD_SLICE_REPLACED = "WorkloadSliceReplaced"
    FAILED_TO_START = "FailedToStart"
    # DeactivationTarget and BlockedOnPreemptionGates
    REQUEUING_LIMIT_EXCEEDED = "RequeuingLimitExceeded"
    MAXIMUM_EXECUTION_TIME_EXCEEDED = "MaximumExecutionTimeExceeded"
    GIVE_UP_TIME_EXCEEDED = "GiveUpTimeExceeded"
    PREEMPTION_GATED = "PreemptionGated"
    # Ours: QuotaReserved=False of a Workload whose queue cannot be used
    INADMISSIBLE = "Inadmissible"
    # Ours: QuotaReserved=False of a Workload that has quota, and no cards
    WAITING_FOR_CARDS = "WaitingForCards"
    # Ours: why an attempt on a worker cluster ended without a result
    EVICTED_ON_WORKER_CLUSTER = "EvictedOnWorkerCluster"
    REFUSED_BY_WORKER_CLUSTER = "RefusedByWorkerCluster"
    WITHDRAWN_FROM_WORKER_CLUSTER = "WithdrawnFromWorkerCluster"


def deactivated_due_to(cause: str) -> str:
    """Reason of Evicted for a deactivation; `cause` is the reason of DeactivationTarget or ""."""
    return f"{Reason.DEACTIVATED}DueTo{cause}" if cause else Reason.DEACTIVATED.value
