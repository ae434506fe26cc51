"""Where a workload may run, where it would rather, and the terms of the score."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.api.selector_text import parse_selector
from federation.core.dispatch import Choice, ClusterView, NoCluster, choose
from federation.core.placement_rules import PlacementRules
from federation.core.queueing import shape
from federation.core.scoring import BUILT_IN, ClusterTraits, cost, data_to_move, weighted
from federation.core.types import FlavorResource
from tests.unit.core.test_dispatch import view, wants

NOW = 100.0


def seen(name: str, free: int = 8, **traits: Any) -> ClusterView:
    return replace(view(name, free), traits=ClusterTraits(**traits))


def pick(
    *views: ClusterView, terms: Any = None, only: str = "", **rules: Any
) -> Choice | NoCluster:
    item, admission = wants()
    item = replace(item, rules=PlacementRules(**rules), only=only)
    known = {v.name: v for v in views}
    found = weighted({}, {}) if terms is None else terms
    return choose(item, admission, known, {}, NOW, found)


def name(result: Choice | NoCluster) -> str:
    assert isinstance(result, Choice), result
    return result.cluster


GOLD, SPOT = {"tier": "gold"}, {"tier": "spot"}


@pytest.mark.parametrize(
    ("rules", "place"),
    [
        ({}, "c"),
        ({"clusters": ("a", "b")}, "b"),
        ({"clusters": ()}, "c"),
        ({"avoid": ("c",)}, "b"),
        ({"avoid": ("c", "b")}, "a"),
        ({"clusters": ("b", "c"), "avoid": ("c",)}, "b"),
        ({"selector": parse_selector("tier=gold")}, "a"),
        ({"selector": parse_selector("tier!=gold")}, "c"),
        ({"prefer": ("a", "b")}, "a"),
        ({"prefer": ("gone", "b")}, "b"),
        ({"prefer": ("a",), "avoid": ("a",)}, "c"),
    ],
)
def test_rules(rules: dict[str, Any], place: str) -> None:
    """c is the emptiest, then b, then a, which alone is gold."""
    clusters = seen("a", 2, labels=GOLD), seen("b", 3, labels=SPOT), seen("c", 4, labels=SPOT)
    assert name(pick(*clusters, **rules)) == place


def test_none_is_allowed() -> None:
    """Each cluster says which rule shuts it out."""
    selector = {"selector": parse_selector("tier=gold"), "selector_text": "tier=gold"}
    found = pick(seen("a"), seen("b", labels=GOLD), clusters=("x", "a"), **selector)
    assert isinstance(found, NoCluster)
    assert found.reasons == {
        "a": "its labels do not match fedq.io/cluster-selector (tier=gold)",
        "b": "fedq.io/clusters allows x, a only",
    }
    found = pick(seen("a"), avoid=("a",))
    assert isinstance(found, NoCluster)
    assert found.reasons == {"a": "fedq.io/avoid-clusters names it"}


def test_a_preferred_cluster_that_is_full() -> None:
    """A preference is no pin."""
    assert name(pick(seen("a", 0), seen("b"), prefer=("a",))) == "b"


def test_an_order_to_move_counts_more() -> None:
    """An operator moves it where its rules would not have it."""
    assert name(pick(seen("a"), seen("b"), only="a", avoid=("a",))) == "a"


def test_the_cheaper_cluster() -> None:
    """Though it is fuller; without prices nothing changes."""
    dear, cheap = {"prices": {"f/gpu": 4.0}}, {"prices": {"f/gpu": 1.0}}
    assert name(pick(seen("a", 8, **dear), seen("b", 2, **cheap))) == "b"
    assert name(pick(seen("a", 8), seen("b", 2))) == "a"
    free = weighted({"cost": 0}, {})
    assert name(pick(seen("a", 8, **dear), seen("b", 2, **cheap), terms=free)) == "a"


def test_where_the_data_is() -> None:
    """By its size; a weight sets it against the price."""
    data = {"data": (("images", 90), ("texts", 10))}
    near, far = seen("a", 2, data=frozenset({"images"})), seen("b", 8, data=frozenset({"texts"}))
    assert name(pick(near, far, **data)) == "a"
    dear = seen("a", 2, data=frozenset({"images"}), prices={"f/gpu": 9.0})
    cheap = seen("b", 8, data=frozenset({"texts"}), prices={"f/gpu": 1.0})
    assert name(pick(dear, cheap, terms=weighted({"dataLocality": 5}, {}), **data)) == "a"
    assert name(pick(dear, cheap, terms=weighted({"cost": 5}, {}), **data)) == "b"


def usage(**amounts: int) -> Choice:
    found = {
        FlavorResource(*key.replace("_", "/", 1).replace("nv", "nvidia.com/").split("/", 1)): n
        for key, n in amounts.items()
    }
    return Choice("a", "wq", found)


@pytest.mark.parametrize(
    ("prices", "used", "price"),
    [
        ({}, {"f_cpu": 4000}, 0.0),
        ({"f": 0.5}, {"f_cpu": 4000, "f_memory": 1 << 33}, 2.0),
        ({"f": 3.0}, {"f_cpu": 4000, "f_nvgpu": 2}, 6.0),
        ({"f": 3.0, "f/cpu": 0.1}, {"f_cpu": 4000, "f_nvgpu": 2}, 6.4),
        ({"f/memory": 0.25}, {"f_cpu": 4000, "f_memory": 1 << 33}, 2.0),
        ({"f/nvidia.com/gpu": 1.5, "f": 9.0}, {"f_nvgpu": 2}, 3.0),
        ({"g": 1.0}, {"f_cpu": 4000}, 0.0),
    ],
)
def test_prices(prices: dict[str, float], used: dict[str, int], price: float) -> None:
    """Of an hour: cores, GiB, cards; one of a flavor is that of its cards, else of its cores."""
    found = cost(wants()[0], seen("a", prices=prices), usage(**used))
    assert found == pytest.approx(price)


def test_no_data() -> None:
    """Costs nothing."""
    assert data_to_move(wants()[0], seen("a"), usage(f_cpu=1)) == 0.0


def test_a_term_of_others() -> None:
    """It counts with weight 1 unless the configuration says otherwise."""

    def latency(item: object, cluster: ClusterView, choice: Choice) -> float:
        return 200.0 if cluster.name == "a" else 20.0

    clusters = seen("a", 8), seen("b", 2)
    assert name(pick(*clusters, terms=weighted({}, {"latency": latency}))) == "b"
    assert name(pick(*clusters, terms=weighted({"latency": 0}, {"latency": latency}))) == "a"
    found = [entry.name for entry in weighted({"cost": 0}, {"latency": latency})]
    assert found == ["dataLocality", "latency"]
    assert set(BUILT_IN) == {"cost", "dataLocality"}


def test_other_rules_are_another_shape() -> None:
    """What cannot be placed for its rules says nothing of others; equal rules are one shape."""
    plain = wants()[0]
    pinned = replace(plain, rules=PlacementRules(clusters=("a",)))
    again = replace(plain, uid="v", rules=PlacementRules(clusters=("a",)))
    patient = replace(plain, rules=PlacementRules(give_up_after=5.0))
    nominated = replace(plain, nominees=("a",))
    assert shape(pinned) == shape(again)
    assert shape(patient) == shape(plain)
    assert len({shape(plain), shape(pinned), shape(nominated)}) == 3
