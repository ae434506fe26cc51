"""Places on nodes that a check has made: sought when it is Ready, and until they are there."""

from __future__ import annotations

from typing import Any

import pytest

from federation.api.names import Controller, Mirror
from federation.edge.resources import ADMISSION_CHECKS, NODES
from tests.unit.manager.support import until
from tests.unit.worker_agent.lives import Lived
from tests.unit.worker_agent.support import mirrored
from tests.unit.worker_agent.test_topology import REQUIRED, Racks, placed


class Provisioned(Racks, Lived):
    """No nodes at all; those that come are asked for by the check `prov`."""

    def __init__(self, racks: int = 0, controller: str = "") -> None:
        super().__init__(racks, check="prov")
        name = controller or Controller.PROVISIONING_REQUEST.value
        self.fake.merge(ADMISSION_CHECKS, "prov", {"spec": {"controllerName": name}})

    def assigned(self, name: str) -> Any:
        (found,) = self.status(name)["admission"]["podSetAssignments"]
        return found

    async def reads_nodes(self) -> None:
        """Until then the queue is not active, and copies are refused."""
        await until(lambda: self.agent is not None and self.agent.active("cq"), "nodes are read")

    def made(self, name: str, rack: str = "r0", **labels: str) -> None:
        """A node comes."""
        self.node(name, rack)
        self.fake.merge(NODES, name, {"metadata": {"labels": labels}})


def copy(name: str, pods: int = 2, asks: dict[str, str] = REQUIRED) -> Any:
    body, local = mirrored(name), placed(name, pods, asks)
    return {**body, "spec": local["spec"]}


async def reserved(day: Provisioned, name: str) -> None:
    """It has quota without places, although no node could take it."""
    await until(lambda: day.status(name).get("admission"), "reserved")
    await until(lambda: day.status(name).get("admissionChecks"), "the check")
    assert day.assigned(name)["delayedTopologyRequest"] == "Pending"
    assert "topologyAssignment" not in day.assigned(name)
    assert not day.started(name)


def full(day: Provisioned, name: str) -> dict[str, Any]:
    """Its hosts, as its Workload says."""
    (piece,) = day.assigned(name)["topologyAssignment"]["slices"]
    (level,) = piece["valuesPerLevel"]
    counts = piece["podCounts"]["individual"]
    return dict(zip(level["individual"]["roots"], counts, strict=True))


async def places(day: Provisioned) -> None:
    """Nodes first, or Ready first: places are sought until they are there."""
    await day.reads_nodes()
    day.add(copy("a", 3))
    await reserved(day, "a")
    day.made("n0")
    day.answer("a", "Ready")
    reason = "PendingDelayedTopologyRequests"
    await until(lambda: day.says("a", "Admitted", False, reason), "no places yet")
    await until(lambda: "no places yet" in day.note_of("a", Mirror.WAITS_FOR), "told")
    await until(lambda: "fit only 2 out of 3" in str(day.status("a")["conditions"]), "numbers")
    assert not day.started("a")
    day.made("n1")
    await until(lambda: day.started("a"), "started")
    await until(lambda: day.says("a", "Admitted", True, "Admitted"), "admitted")
    assert full(day, "a") == {"n0": 2, "n1": 1}
    assert day.assigned("a")["delayedTopologyRequest"] == "Ready"
    assert not day.note_of("a", Mirror.WAITS_FOR)


@pytest.mark.timeout(300)
async def test_a_copy_gets_its_places_when_the_nodes_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whichever write the agent does not come to, after the first: a copy that holds nothing yet
    is refused by an agent that has not read the nodes.
    """
    monkeypatch.setattr("worker_agent.writes.RETRY_S", 0.01)
    whole = Provisioned()
    await whole.live(places, None)
    for number in range(1, whole.agent_writes):
        await Provisioned().live(places, number)


async def test_what_the_check_adds_says_where() -> None:
    """Only the nodes that were made for it, also for a local Job."""
    day = Provisioned(racks=1)
    async with day.living():
        day.add(placed("a", 2, REQUIRED))
        await reserved(day, "a")
        day.made("new0", "r9", of="a")
        update = {"name": "main", "nodeSelector": {"of": "a"}}
        day.answer("a", "Ready", podSetUpdates=[update])
        await until(lambda: day.started("a"), "started")
        assert day.get("a")["spec"]["template"]["spec"]["nodeSelector"]["of"] == "a"
        await until(lambda: "topologyAssignment" in day.assigned("a"), "placed")
        assert full(day, "a") == {"new0": 2}


async def test_places_that_are_found_are_taken() -> None:
    """Two that become Ready at once do not get the same."""
    day = Provisioned()
    async with day.living():
        await day.reads_nodes()
        day.add(copy("a"), copy("b"))
        for name in ("a", "b"):
            await reserved(day, name)
        day.made("n0")
        day.answer("a", "Ready")
        day.answer("b", "Ready")
        await until(lambda: day.started("a") != day.started("b"), "one of them")
        await day.at_peace()
        assert day.started("a") != day.started("b")
        day.made("n1")
        await until(lambda: day.started("a") and day.started("b"), "both")
        await until(lambda: all("topologyAssignment" in day.assigned(n) for n in ("a", "b")))
        hosts = [full(day, name) for name in ("a", "b")]
        assert sorted(map(str, hosts)) == ["{'n0': 2}", "{'n1': 2}"]


async def test_a_check_that_makes_no_nodes_delays_nothing() -> None:
    """Places are sought first, as in Kueue; without nodes there is nothing to reserve."""
    day = Provisioned(racks=1, controller="budget")
    async with day.living():
        await day.reads_nodes()
        day.add(copy("a"))
        await until(lambda: day.status("a").get("admissionChecks"), "reserved")
        assert full(day, "a") == {"r0n0": 2}
        day.add(copy("large", 4))
        await until(lambda: day.refused("large"), "refused")
        assert "allows to fit only 2 out of 4" in day.refused("large")
