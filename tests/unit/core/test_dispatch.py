"""Choosing the worker cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.core.devices.wants import CardWants, ContainerWants, PodWants
from federation.core.dispatch import (
    Amount,
    Choice,
    ClusterView,
    NoCluster,
    Refusal,
    WorkerQueue,
    choose,
)
from federation.core.nominating import why_never
from federation.core.queueing import shape
from federation.core.types import Admission, FlavorResource, Pending, PodSetAssignment
from tests.unit.core.build import item, pods

GPU = FlavorResource("f", "gpu")
NOW = 100.0


def view(name: str, free: int = 8, nominal: int = 8, **more: Any) -> ClusterView:
    """A cluster whose queue `wq` has gpus in one flavor."""
    amounts = more.pop("amounts", {GPU: Amount(nominal, free)})
    active = more.pop("active", True)
    return ClusterView(
        name,
        queues={"wq": WorkerQueue("wq", active, amounts)},
        local_queues=more.pop("local_queues", {("team", "lq"): "wq"}),
        **more,
    )


def wants(count: int = 1, **requests: int) -> tuple[Pending, Admission]:
    """A workload of one pod set with its management budget in flavor `f`."""
    given = requests or {"gpu": 1}
    what = item("u", "q", pods(count, **given))
    usage = {name: amount * count for name, amount in given.items()}
    return what, Admission(
        "q", (PodSetAssignment("main", count, dict.fromkeys(given, "f"), usage),)
    )


def pick(
    *views: ClusterView,
    refusals: dict[str, Refusal] | None = None,
    work: tuple[Pending, Admission] | None = None,
) -> Choice | NoCluster:
    what, budget = work or wants()
    return choose(what, budget, {v.name: v for v in views}, refusals or {}, NOW)


def cluster(result: Choice | NoCluster) -> str:
    assert isinstance(result, Choice), result
    return result.cluster


def why(result: Choice | NoCluster, name: str) -> str:
    assert isinstance(result, NoCluster), result
    return result.reasons[name]


def test_the_emptiest_cluster_wins() -> None:
    """By the share that is left after taking the workload, not by the amount."""
    assert cluster(pick(view("a", 3), view("b", 5))) == "b"
    assert cluster(pick(view("a", 3, 4), view("b", 5, 100))) == "a"


def test_ties_go_by_name() -> None:
    """DESIGN §7: never at random, and not by the order in which clusters were registered."""
    assert cluster(pick(view("c"), view("a"), view("b"))) == "a"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (view("a", problem="AgentSilent: gone quiet"), "AgentSilent: gone quiet"),
        (view("a", local_queues={}), "no LocalQueue team/lq there"),
        (view("a", local_queues={("other", "lq"): "wq"}), "no LocalQueue team/lq there"),
        (view("a", local_queues={("team", "lq"): "gone"}), "ClusterQueue gone is not active"),
        (view("a", active=False), "ClusterQueue wq is not active there"),
        (view("a", 0), "gpu: 0 free, 1 needed"),
        (view("a", amounts={FlavorResource("f", "cpu"): Amount(9, 9)}), "no quota for gpu"),
    ],
)
def test_filters(bad: ClusterView, reason: str) -> None:
    """A cluster that cannot take it is passed over, and says why when none can."""
    assert cluster(pick(bad, view("b", 1))) == "b"
    result = pick(bad)
    assert reason in why(result, "a")
    assert isinstance(result, NoCluster)
    assert result.retry_at is None
    assert reason in result.message()


def test_no_cluster_at_all() -> None:
    """The message says what to do."""
    result = pick()
    assert isinstance(result, NoCluster)
    assert "create a MultiKueueCluster" in result.message()


def test_refusals_are_waited_out() -> None:
    """A refusal holds until its time; the earliest one says when to look again."""
    until = {"a": 150.0, "b": 120.0}
    refusals = {n: Refusal(n, "WaitingForQuota", "no room", 1, t) for n, t in until.items()}
    result = pick(view("a"), view("b"), refusals=refusals)

    assert isinstance(result, NoCluster)
    assert result.retry_at == 120.0
    assert result.reasons["a"] == "refused: no room"
    assert cluster(pick(view("a"), view("b"), view("c", 1), refusals=refusals)) == "c"
    final = {"a": replace(refusals["a"], final=True)}
    assert why(pick(view("a"), refusals=final), "a") == "refused for good: no room"
    over = {"a": replace(refusals["a"], until=NOW)}
    assert cluster(pick(view("a"), refusals=over)) == "a"


def test_pending_offers_are_counted() -> None:
    """What was offered and is not in the report yet is not free; what ended is again."""
    assert "0 free" in why(pick(view("a", 2, pending={"wq": {GPU: 2}})), "a")
    assert cluster(pick(view("a", 0, pending={"wq": {GPU: -1}}))) == "a"
    assert cluster(pick(view("a", 2, pending={"other": {GPU: 2}}))) == "a"
    loaded = view("a", 8, pending={"wq": {GPU: 6}})
    assert cluster(pick(loaded, view("b", 5))) == "b"


SPOT, OD = FlavorResource("f", "gpu"), FlavorResource("od", "gpu")


def test_the_budgets_flavor_binds_where_it_exists() -> None:
    """DESIGN §3: a management flavor constrains a worker only if it has one of that name."""
    both = view("a", amounts={OD: Amount(8, 8), SPOT: Amount(1, 0)})
    assert why(pick(both), "a") == "gpu: 0 free, 1 needed"
    other = view("a", amounts={FlavorResource("x", "gpu"): Amount(1, 0), OD: Amount(8, 8)})
    result = pick(other)
    assert isinstance(result, Choice)
    assert result.usage == {OD: 1}


def test_pod_sets_add_up_and_zero_requests_need_no_quota() -> None:
    """The whole gang has to fit, on the worker's first flavor with room for each part."""
    what = item("u", "q", pods(2, "head", gpu=1, tpu=0), pods(3, "tail", gpu=1))
    budget = Admission(
        "q",
        (
            PodSetAssignment("head", 2, {"gpu": "f"}, {"gpu": 2}),
            PodSetAssignment("tail", 3, {"gpu": "f"}, {"gpu": 3}),
        ),
    )
    assert "2 free, 3 needed" in why(pick(view("a", 4), work=(what, budget)), "a")
    result = pick(view("a", 5), work=(what, budget))
    assert isinstance(result, Choice)
    assert result == Choice("a", "wq", {GPU: 5})


def test_the_tightest_resource_decides() -> None:
    """A cluster with plenty of cpu and few cards is a full one for a card job."""
    cpu = FlavorResource("f", "cpu")
    few = view("a", amounts={GPU: Amount(8, 2), cpu: Amount(100, 100)})
    even = view("b", amounts={GPU: Amount(8, 5), cpu: Amount(100, 50)})
    assert cluster(pick(few, even, work=wants(gpu=1, cpu=1))) == "b"


def test_a_queue_that_only_borrows() -> None:
    """No nominal quota: it counts as full, and is taken only when there is nothing better."""
    assert cluster(pick(view("a", 4, 0), view("b", 1, 8))) == "a"
    assert cluster(pick(view("a", 4, 0), view("b", 2, 8))) == "b"


def sliced(usage: dict[str, int]) -> tuple[Pending, Admission]:
    """Two pods with half a card each, charged so at management, in flavor `f`."""
    cards = PodWants((ContainerWants("c", cards=(CardWants("NVIDIA", 1, percent=50),)),))
    given = replace(pods(2, **{"nvidia.com/gpu": 1}), cards=cards)
    assigned = PodSetAssignment("main", 2, dict.fromkeys(usage, "f"), usage)
    return item("u", "q", given), Admission("q", (assigned,))


def test_shares_of_cards_are_asked_for_where_they_are_counted() -> None:
    """As they were charged; who counts them need not count cards, who does not is not asked."""
    cards, memory = (FlavorResource("f", f"nvidia.com/{n}") for n in ("gpu", "total-gpumem"))
    work = sliced({"nvidia.com/gpu": 2, "nvidia.com/total-gpumem": 40960})
    both = view("a", amounts={cards: Amount(8, 8), memory: Amount(10**6, 40960)})
    found = pick(both, work=work)
    assert isinstance(found, Choice)
    assert found.usage == {cards: 2, memory: 40960}
    only_memory = pick(view("a", amounts={memory: Amount(10**6, 40960)}), work=work)
    assert isinstance(only_memory, Choice)
    assert only_memory.usage == {memory: 40960}
    only_cards = pick(view("a", amounts={cards: Amount(8, 8)}), work=work)
    assert isinstance(only_cards, Choice)
    assert only_cards.usage == {cards: 2}
    full = view("a", amounts={cards: Amount(8, 8), memory: Amount(10**6, 40959)})
    assert "total-gpumem: 40959 free, 40960 needed" in why(pick(full, work=work), "a")
    assert "no quota for nvidia.com/gpu" in why(pick(view("a"), work=work), "a")


def tied(**to: str) -> tuple[Pending, Admission]:
    what, budget = wants()
    return replace(what, **to), budget  # type: ignore[arg-type]


def test_moved_by_order() -> None:
    """To that cluster alone, and not before it has room; the others are told why not."""
    views = view("a", 3), view("b", 5), view("c", 0)
    assert cluster(pick(*views, work=tied(only="a"))) == "a"
    result = pick(*views, work=tied(only="c"))
    assert why(result, "a") == "it is to be moved to c"
    assert why(result, "c") == "gpu: 0 free, 1 needed"
    result = pick(*views, work=tied(only="x"))
    assert why(result, "x") == "it is to be moved there, and jobs of its queue cannot run there"


def test_what_runs_somewhere_stays_there() -> None:
    """It needs no room: the cluster's report has it already; nor does it matter what else is said
    of the cluster. An order to go elsewhere comes first.
    """
    views = view("a", 0, problem="recovering"), view("b", 5)
    assert pick(*views, work=tied(stays="a")) == Choice("a", "wq", {})
    assert cluster(pick(*views, work=tied(stays="a", only="b"))) == "b"
    assert cluster(pick(*views, work=tied(stays="gone"))) == "b"
    elsewhere = view("a", local_queues={}), view("b", 5)
    assert cluster(pick(*elsewhere, work=tied(stays="a"))) == "b"


def test_a_cluster_without_the_crd_is_no_candidate() -> None:
    """Nobody offers what cannot be created there; where it is not known, an offer tells."""
    what, budget = wants()
    jobset = "JobSet.v1alpha2.jobset.x-k8s.io"
    work = replace(what, kind=jobset), budget
    without, with_it = view("a", kinds={"Pod.v1"}), view("b", 2, kinds={jobset})
    assert cluster(pick(without, with_it, work=work)) == "b"
    assert cluster(pick(without, view("b", 2), work=work)) == "b"
    assert cluster(pick(without, with_it)) == "a"
    said = why(pick(without, work=work), "a")
    assert said == f"it does not serve {jobset}: the CRD is missing there"
    assert why_never(*work, without, None)
    assert not why_never(*work, with_it, None)
    assert shape(work[0]) != shape(what)


def test_a_cluster_whose_agent_has_not_read_the_kind_is_no_candidate() -> None:
    """An offer would stay unanswered. Plain Kueue has no agent that tells, nor have older ones."""
    what, budget = wants()
    jobset = "JobSet.v1alpha2.jobset.x-k8s.io"
    work = replace(what, kind=jobset), budget
    unread, read = view("a", followed=()), view("b", 2, followed={jobset})
    assert cluster(pick(unread, read, work=work)) == "b"
    assert cluster(pick(unread, read)) == "a"
    said = why(pick(unread, work=work), "a")
    assert said.startswith(f"its agent has not read {jobset} yet")
    assert why_never(*work, unread, None)
    assert not why_never(*work, read, None)
