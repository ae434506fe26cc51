"""The quota of a queue as the sum over its clusters."""

from __future__ import annotations

from federation.core.automated_quota import Contribution, automated
from federation.core.quota import quotas_of
from federation.core.types import ClusterQueue, FlavorQuotas, FlavorResource, Quota, ResourceGroup

GPU, CPU = FlavorResource("f", "gpu"), FlavorResource("f", "cpu")


def queue(*flavors: str) -> ClusterQueue:
    """Each flavor with 1 card and 1 core, of which up to 2 may be borrowed."""
    amounts = {"gpu": Quota(1, borrowing_limit=2), "cpu": Quota(1000)}
    group = ResourceGroup(("gpu", "cpu"), tuple(FlavorQuotas(name, amounts) for name in flavors))
    return ClusterQueue("q", (group,))


def sums(of: ClusterQueue, *found: Contribution) -> dict[FlavorResource, int]:
    """The nominal quotas."""
    return {k: q.nominal for k, q in quotas_of(automated(of, found).queue.groups).items()}


def test_clusters_add_up() -> None:
    """What nobody has is 0; limits stay as they are written."""
    east, west = Contribution("east", {GPU: 8}), Contribution("west", {GPU: 4})
    found = automated(queue("f"), [east, west])

    assert sums(queue("f"), east, west) == {GPU: 12, CPU: 0}
    assert quotas_of(found.queue.groups)[GPU].borrowing_limit == 2
    assert found.text == "gpu in f: 12 (east 8, west 4)"


def test_a_cluster_out_of_reach_counts_with_what_is_bound() -> None:
    away = Contribution("east", {GPU: 5}, reachable=False)
    found = automated(queue("f"), [away, Contribution("west", {GPU: 4})])

    assert sums(queue("f"), away, Contribution("west", {GPU: 4}))[GPU] == 9
    assert "Of east only what is bound counts" in found.text


def test_flavors_count_by_name() -> None:
    """With a single flavor here, whatever a worker calls its own; else what fits none is told."""
    other = FlavorResource("spot", "gpu")
    both = Contribution("east", {GPU: 8, other: 3})

    assert sums(queue("f"), both)[GPU] == 11
    assert sums(queue("f", "g"), both) == {
        GPU: 8, CPU: 0, FlavorResource("g", "gpu"): 0, FlavorResource("g", "cpu"): 0,
    }  # fmt: skip
    assert "Not counted" in automated(queue("f", "g"), [both]).text
    assert sums(queue("f", "spot"), both)[other] == 3


def test_what_the_queue_does_not_cover_is_nothing_to_tell() -> None:
    found = automated(queue("f"), [Contribution("east", {FlavorResource("f", "tpu"): 1})])
    assert found.text == "no cluster has quota for it"
