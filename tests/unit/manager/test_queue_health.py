"""Why queues are inactive: every reason, in Kueue's order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from federation.api.names import ActiveReason, Controller
from federation.core.policies import AdmissionCheck, StopPolicy
from federation.core.quota import QuotaTree
from federation.core.types import ClusterQueue, Cohort, LocalQueue, ResourceFlavor
from manager.membership import Check
from manager.queue_health import QueueHealth
from tests.unit.core.build import cq, group, one, quota

OURS, THEIRS = Controller.MULTIKUEUE.value, Controller.PROVISIONING_REQUEST.value
CHECKS = {
    "ours": Check(OURS, active=True),
    "also-ours": Check(OURS, active=True),
    "theirs": Check(THEIRS, active=True),
    "idle": Check("example.com/x"),
    "alone": Check(OURS, "gone"),
}
FLAVORS = {"f": ResourceFlavor("f"), "t": ResourceFlavor("t", topology="racks")}


def health(*queues: ClusterQueue, topologies: tuple[str, ...] = (), lost: str = "") -> QueueHealth:
    """Of these queues, among the checks above and the flavors, but for one that is `lost`."""
    catalog = SimpleNamespace(
        queues={q.name: q for q in queues},
        flavors={name: flavor for name, flavor in FLAVORS.items() if name != lost},
        topologies=dict.fromkeys(topologies, ()),
        queue_problem=lambda namespace, name: f"about {namespace}/{name}",
    )
    clusters = SimpleNamespace(check=CHECKS.get)
    return QueueHealth(cast(Any, catalog), cast(Any, clusters))


def checked(*names: str, flavors: frozenset[str] = frozenset()) -> dict[str, Any]:
    return {"checks": tuple(AdmissionCheck(name, flavors) for name in names)}


CYCLE = (Cohort("a", "b"), Cohort("b", "a"))
QUEUES: list[tuple[ActiveReason, ClusterQueue]] = [
    (ActiveReason.TERMINATING, one("q", 1, terminating=True)),
    (ActiveReason.STOPPED, one("q", 1, stop=StopPolicy.HOLD_AND_DRAIN)),
    (ActiveReason.FLAVOR_NOT_FOUND, one("q", 1)),
    (ActiveReason.ADMISSION_CHECK_NOT_FOUND, one("q", 1, **checked("missing"))),
    (ActiveReason.ADMISSION_CHECK_INACTIVE, one("q", 1, **checked("idle"))),
    (ActiveReason.MULTIPLE_MULTIKUEUE_CHECKS, one("q", 1, **checked("ours", "also-ours"))),
    (
        ActiveReason.MULTIKUEUE_CHECK_PER_FLAVOR,
        one("q", 1, **checked("ours", flavors=frozenset({"f"}))),
    ),
    (ActiveReason.MULTIKUEUE_WITH_PROVISIONING, one("q", 1, **checked("ours", "theirs"))),
    (ActiveReason.UNKNOWN, one("q", 1, "a")),
]


@pytest.mark.parametrize(("reason", "queue"), QUEUES)
def test_each_reason(reason: ActiveReason, queue: ClusterQueue) -> None:
    """With a text that says what is wrong behind Kueue's words."""
    lost = "f" if reason is ActiveReason.FLAVOR_NOT_FOUND else ""
    found = health(queue, lost=lost).cluster_queue(queue, QuotaTree([queue], CYCLE))
    assert found is not None
    assert found.reason is reason
    assert found.message.startswith("Can't admit new workloads: ")
    assert len(found.message) > len("Can't admit new workloads: ")


def test_a_topology_that_is_not_there() -> None:
    """Of a flavor that is."""
    queue = cq("q", group("gpu", t=(quota(1),)))
    assert health(queue, topologies=("racks",)).cluster_queue(queue, QuotaTree([queue])) is None
    found = health(queue).cluster_queue(queue, QuotaTree([queue]))
    assert found is not None
    assert found.reason is ActiveReason.TOPOLOGY_NOT_FOUND
    assert "Topology racks of ResourceFlavor t" in found.message


def test_the_first_reason_and_all_texts() -> None:
    """A queue with several things wrong."""
    queue = one("q", 1, "a", stop=StopPolicy.HOLD, **checked("missing", "idle"))
    found = health(queue).cluster_queue(queue, QuotaTree([queue], CYCLE))
    assert found is not None
    assert found.reason is ActiveReason.STOPPED
    for text in ("stopped (Hold)", "missing does not exist", "idle is not active", "cycle"):
        assert text in found.message


def test_a_check_whose_config_was_deleted() -> None:
    """Its name is told: that is what people deleted."""
    queue = one("q", 1, **checked("alone"))
    assert health(queue).inactive() == {
        "q": "AdmissionCheck alone (MultiKueueConfig gone does not exist) is not active"
    }


def test_what_the_scheduler_does_not_see_itself() -> None:
    """Checks and topologies; the rest it knows."""
    fine, stopped = one("fine", 1), one("stopped", 1, stop=StopPolicy.HOLD)
    unchecked = one("unchecked", 1, **checked("missing"))
    found = health(fine, stopped, unchecked).inactive()
    assert found == {"unchecked": "AdmissionCheck missing does not exist"}


@pytest.mark.parametrize(
    ("local", "reason"),
    [
        (LocalQueue("team", "lq", "fine"), None),
        (LocalQueue("team", "lq", "fine", StopPolicy.HOLD), ActiveReason.STOPPED),
        (LocalQueue("team", "lq", "nowhere"), ActiveReason.CLUSTER_QUEUE_DOES_NOT_EXIST),
        (LocalQueue("team", "lq", "stopped"), ActiveReason.CLUSTER_QUEUE_IS_INACTIVE),
    ],
)
def test_local_queues(local: LocalQueue, reason: ActiveReason | None) -> None:
    """Its own state, then that of where it leads."""
    queues = (one("fine", 1), one("stopped", 1, stop=StopPolicy.HOLD))
    found = health(*queues).local_queue(("team", "lq"), local, QuotaTree(queues))
    assert (found and found.reason) == reason
