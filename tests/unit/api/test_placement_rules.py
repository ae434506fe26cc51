"""Annotations that say where a job is to run."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.api.disconnect import read_wishes
from federation.api.placement_rules import read_rules, read_traits
from federation.api.selector_text import SelectorError, parse_selector
from federation.core.matching import selects
from federation.core.placement_rules import NO_RULES, PlacementRules, nearest_rules
from federation.core.scoring import NO_TRAITS
from federation.core.wishes import NO_WISHES

GOLD = {"tier": "gold", "zone": "a", "gpus": "8"}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("", True),
        ("tier=gold", True),
        ("tier==gold", True),
        ("tier = silver", False),
        ("tier!=silver", True),
        ("spot!=yes", True),
        ("zone in (a,b),tier=gold", True),
        ("zone in ( b , c )", False),
        ("zone notin (b)", True),
        ("spot notin (b)", True),
        ("tier", True),
        ("spot", False),
        ("!spot", True),
        ("! tier", False),
        ("gpus>4", True),
        ("gpus<4", False),
        ("spot>4", False),
        ("example.com/x", False),
        ("tier=", False),
        (" tier = gold , zone = a ", True),
    ],
)
def test_selectors(text: str, holds: bool) -> None:
    """As kubectl reads them."""
    assert selects(parse_selector(text), GOLD) is holds


@pytest.mark.parametrize(
    "text",
    [",", "a,", ",a", "a,,b", "a=b=c", "in (a)", "a in a", "a in (b", "a in b)", "a b", "-a=b",
     "a=b c", "a>x", "a in ((b))", "x" * 2000, "a=" + "b" * 64, "é=a"],
)  # fmt: skip
def test_what_is_no_selector(text: str) -> None:
    """Refused: it must not select more than was meant."""
    with pytest.raises(SelectorError):
        parse_selector(text)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing else happens."""
    with contextlib.suppress(SelectorError):
        assert isinstance(selects(parse_selector(text), GOLD), bool)


def test_all_annotations() -> None:
    """Lists are comma-separated, each name once."""
    rules, problems = read_rules(
        {
            "fedq.io/clusters": " a, b,,a",
            "fedq.io/avoid-clusters": "c",
            "fedq.io/cluster-selector": "tier=gold",
            "fedq.io/prefer-clusters": "b,a",
            "fedq.io/data": "images=2Ki, texts=1Ki",
            "fedq.io/give-up-after": "1h30m",
        }
    )
    assert problems == []
    assert (rules.clusters, rules.avoid, rules.prefer) == (("a", "b"), ("c",), ("b", "a"))
    assert rules.selector == parse_selector("tier=gold")
    assert rules.data == (("images", 2048), ("texts", 1024))
    assert rules.give_up_after == 5400


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("fedq.io/cluster-selector", "tier in gold"),
        ("fedq.io/give-up-after", "soon"),
        ("fedq.io/give-up-after", "0"),
        ("fedq.io/give-up-after", "-5m"),
        ("fedq.io/data", "images=big"),
        ("fedq.io/data", "=5"),
        ("fedq.io/data", "images=0"),
        *(
            (f"fedq.io/{key}", ",".join(map(str, range(257))))
            for key in ("data", "clusters", "avoid-clusters", "prefer-clusters")
        ),
    ],
)
def test_what_cannot_be_understood(key: str, value: str) -> None:
    """It is told with the key; the job is not placed."""
    wishes = read_wishes({"metadata": {"annotations": {key: value}}})
    assert wishes.problem.startswith(f"{key}: ")


def test_nothing_said() -> None:
    """The same object, so that it costs nothing."""
    assert read_wishes({"metadata": {"annotations": {"other": "x"}}}) is NO_WISHES
    assert read_rules({})[0] is NO_RULES


def test_the_nearest_word_counts() -> None:
    """Of each thing by itself; an empty list says: any."""
    job = PlacementRules(clusters=(), prefer=("a",))
    queue = PlacementRules(clusters=("x",), avoid=("y",), give_up_after=5.0)
    found = nearest_rules([job, NO_RULES, queue])
    assert found == PlacementRules(clusters=(), avoid=("y",), prefer=("a",), give_up_after=5.0)
    assert nearest_rules([NO_RULES, queue]) is queue
    assert nearest_rules([NO_RULES]) is NO_RULES


def test_traits_of_a_cluster() -> None:
    """Entries that make no sense are left out: the others count."""
    notes = {
        "fedq.io/cost-per-hour": "a100=3.5, spot/cpu=0.02, bad, worse=x, least=-1, most=inf,"
        " much=1e300, nan=nan",
        "fedq.io/data": "images, texts",
    }
    found = read_traits({"metadata": {"labels": {"tier": "gold"}, "annotations": notes}})
    assert found.labels == {"tier": "gold"}
    assert found.prices == {"a100": 3.5, "spot/cpu": 0.02}
    assert found.data == {"images", "texts"}
    assert read_traits({"metadata": {}}) is NO_TRAITS
