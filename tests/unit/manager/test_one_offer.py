"""No two clusters ever compete for a job: there is no tie whose winner could change (C12)."""

from __future__ import annotations

from bench.dst.clock import VirtualLoop
from federation.core.dispatchers import Dispatcher, Dispatching
from federation.core.policies import Policies
from federation.edge.resources import JOBS
from tests.unit.manager.test_clusters import Lives
from tests.unit.manager.virtual import virtually

NAMES = ("one", "two")
"""As many as may be open to two clusters that have not answered yet."""


def offers(world: Lives) -> dict[str, set[tuple[str, str]]]:
    """Cluster and UID of all copies that there ever were, by name of the job."""
    found: dict[str, set[tuple[str, str]]] = {}
    for cluster, worker in world.workers.items():
        for change in worker.fake.objects.history:
            if change.resource == JOBS and change.new:
                meta = change.new["metadata"]
                found.setdefault(meta["name"], set()).add((cluster, meta["uid"]))
    return found


def test_clusters_that_are_equal_and_a_manager_that_looks_twice() -> None:
    """All may be offered everything at once, all answers bear the same second (the clocks of the
    API servers stand still), and another manager looks at them after the first one: it finds the
    same place for each job, as it is written before the only offer is made.
    """

    async def main(loop: VirtualLoop) -> None:
        world = Lives("a", "b", policies=Policies(dispatching=Dispatching(Dispatcher.ALL_AT_ONCE)))
        async with world.alive():
            for name in NAMES:
                world.submit(name)
            await world.until(lambda: len(offers(world)) == len(NAMES))
        for name, [(cluster, _)] in offers(world).items():
            world.start(world.workers[cluster], name)
            world.workers[cluster].run_pods(name)
        assert not any(world.record(name).admitted for name in NAMES)
        async with world.again():
            await world.until(lambda: all(world.record(name).admitted for name in NAMES))
        assert {len(found) for found in offers(world).values()} == {1}
        assert {cluster for [(cluster, _)] in offers(world).values()} == {"a", "b"}
        for name, [(cluster, _)] in offers(world).items():
            binding = world.record(name).binding
            assert (binding.cluster, binding.attempt) == (cluster, 1)

    virtually(main)
