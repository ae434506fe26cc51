"""Why a ClusterQueue or LocalQueue admits nothing: reasons in Kueue's order, texts for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from federation.api.names import ActiveReason, Controller
from federation.core.policies import StopPolicy
from federation.core.quota import QuotaTree
from federation.core.types import ClusterQueue, LocalQueue
from federation.edge.catalog import Catalog
from manager.membership import Check, Membership

PREFIX = "Can't admit new workloads: "


class Problem(NamedTuple):
    """Reason and message of Active=False."""

    reason: ActiveReason
    message: str


class QueueHealth:
    """Judges queues by all that they name."""

    def __init__(self, catalog: Catalog, membership: Membership) -> None:
        self._catalog, self._membership = catalog, membership

    def inactive(self) -> dict[str, str]:
        """ClusterQueues that admit nothing for another reason than those that the scheduler sees
        itself (deletion, stop policy, flavors, cohorts), and why.
        """
        found = {}
        for name, queue in self._catalog.queues.items():
            if problems := list(self._references(queue)):
                found[name] = ", ".join(problem.message for problem in problems)
        return found

    def cluster_queue(self, queue: ClusterQueue, tree: QuotaTree) -> Problem | None:
        """The first reason, with the texts of all."""
        found = list(self._problems(queue, tree))
        if not found:
            return None
        return Problem(found[0].reason, PREFIX + ", ".join(problem.message for problem in found))

    def local_queue(
        self, key: tuple[str, str], local: LocalQueue, tree: QuotaTree
    ) -> Problem | None:
        """Why jobs submitted here are not admitted."""
        if local.stop is not StopPolicy.NONE:
            return Problem(ActiveReason.STOPPED, self._catalog.queue_problem(*key))
        queue = self._catalog.queues.get(local.cluster_queue)
        if queue is None:
            text = self._catalog.queue_problem(*key)
            return Problem(ActiveReason.CLUSTER_QUEUE_DOES_NOT_EXIST, text)
        problem = self.cluster_queue(queue, tree)
        if problem is None:
            return None
        text = f"ClusterQueue {queue.name}: {problem.message}"
        return Problem(ActiveReason.CLUSTER_QUEUE_IS_INACTIVE, text)

    def _problems(self, queue: ClusterQueue, tree: QuotaTree) -> Iterator[Problem]:
        if queue.terminating:
            yield Problem(ActiveReason.TERMINATING, "the ClusterQueue is being deleted")
        if queue.stop is not StopPolicy.NONE:
            yield Problem(ActiveReason.STOPPED, f"it is stopped ({queue.stop})")
        if missing := [name for name in queue.flavor_names if name not in self._catalog.flavors]:
            text = f"ResourceFlavor {', '.join(missing)} does not exist"
            yield Problem(ActiveReason.FLAVOR_NOT_FOUND, text)
        yield from self._references(queue)
        if queue.name in tree.cyclic:
            text = f"the cohorts above it form a cycle (from Cohort {queue.cohort}): break it"
            yield Problem(ActiveReason.UNKNOWN, text)

    def _references(self, queue: ClusterQueue) -> Iterator[Problem]:
        """What is wrong with its checks and the topologies of its flavors."""
        checks = {name: self._membership.check(name) for name in sorted(set(queue.check_names))}
        if missing := [name for name, check in checks.items() if check is None]:
            text = f"AdmissionCheck {', '.join(missing)} does not exist"
            yield Problem(ActiveReason.ADMISSION_CHECK_NOT_FOUND, text)
        if idle := [
            _idle(name, check) for name, check in checks.items() if check and not check.active
        ]:
            text = f"AdmissionCheck {', '.join(idle)} is not active"
            yield Problem(ActiveReason.ADMISSION_CHECK_INACTIVE, text)
        of = {name: check.controller for name, check in checks.items() if check}
        ours = [name for name, controller in of.items() if controller == Controller.MULTIKUEUE]
        if len(ours) > 1:
            text = f"it has more than one MultiKueue AdmissionCheck: {', '.join(ours)}"
            yield Problem(ActiveReason.MULTIPLE_MULTIKUEUE_CHECKS, text)
        if apart := [check.name for check in queue.checks if check.name in ours and check.flavors]:
            text = f"MultiKueue AdmissionCheck {', '.join(apart)} is set for single flavors"
            yield Problem(ActiveReason.MULTIKUEUE_CHECK_PER_FLAVOR, text)
        if ours and Controller.PROVISIONING_REQUEST in of.values():
            text = f"{ours[0]} (MultiKueue) cannot be combined with a ProvisioningRequest check"
            yield Problem(ActiveReason.MULTIKUEUE_WITH_PROVISIONING, text)
        yield from self._topologies(queue)

    def _topologies(self, queue: ClusterQueue) -> Iterator[Problem]:
        flavors = self._catalog.flavors
        for name in queue.flavor_names:
            flavor = flavors.get(name)
            if flavor and flavor.topology and flavor.topology not in self._catalog.topologies:
                text = f"Topology {flavor.topology} of ResourceFlavor {name} does not exist"
                yield Problem(ActiveReason.TOPOLOGY_NOT_FOUND, text)


def _idle(name: str, check: Check) -> str:
    """The name of an AdmissionCheck, and what is known of why it is not active."""
    if check.controller != Controller.MULTIKUEUE:
        return name
    return f"{name} ({check.problem or f'MultiKueueConfig {check.parameters} does not exist'})"
