"""Dominant resource shares (§6.2, item 120)."""

from __future__ import annotations

import math

import pytest

from federation.core.quota import QuotaTree
from federation.core.shares import Share, share_of
from federation.core.types import Cohort, FlavorResource
from tests.unit.core.build import GPU, co, cq, group, one, quota

INFINITE = 2**63 - 1


@pytest.mark.parametrize(("weight", "share"), [(1.0, 200), (2.0, 100), (0.5, 400)])
def test_the_largest_ratio_over_the_weight(weight: float, share: int) -> None:
    """§6.2: cpu 1 of 10 is 100, gpu over two flavors 2 of 10 is 200."""
    groups = (group("cpu", x=(quota(2),)), group("gpu", f=(quota(5),), g=(quota(0),)))
    others = (group("cpu", x=(quota(8),)), group("gpu", f=(quota(5),)))
    tree = QuotaTree(
        [cq("q", *groups, cohort="c", fair_weight=weight), cq("sibling", *others, cohort="c")]
    )
    tree.add("q", {FlavorResource("x", "cpu"): 3, FlavorResource("f", "gpu"): 7})

    assert share_of(tree.queues["q"]).shown() == share


def test_what_is_borrowed_adds_up_over_flavors() -> None:
    """Of one resource; what is free in another flavor does not count against it."""
    groups = group("gpu", f=(quota(1),), g=(quota(1),), h=(quota(4),))
    lender = group("gpu", f=(quota(2),), g=(quota(2),))
    tree = QuotaTree([cq("q", groups, cohort="c"), cq("lender", lender, cohort="c")])
    tree.add("q", {FlavorResource("f", "gpu"): 2, FlavorResource("g", "gpu"): 2})

    assert share_of(tree.queues["q"]).value == 200


def test_a_child_cohort() -> None:
    """§6.2: root with 45, a cohort of weight 2 whose queue uses 10 of 5: 100 there, 50 above."""
    child = Cohort("child", "root", fair_weight=2.0)
    tree = QuotaTree([one("q", 5, "child")], [co("root", 45), child])
    tree.add("q", {GPU: 10})

    assert share_of(tree.queues["q"]).shown() == 100
    found = tree.cohort("child")
    assert found is not None
    assert share_of(found).shown() == 50


@pytest.mark.parametrize(
    ("used", "shown", "borrowing"), [(0, 0, False), (5, 0, False), (6, 67, True)]
)
def test_within_nominal_there_is_no_share(used: int, shown: int, borrowing: bool) -> None:
    """1 of 15 is 66.7, which is shown rounded up."""
    tree = QuotaTree([one("q", 5, "c"), one("other", 10, "c")])
    tree.add("q", {GPU: used})
    share = share_of(tree.queues["q"])

    assert (share.shown(), share.borrowing) == (shown, borrowing)


def test_what_is_kept_back_is_not_lendable() -> None:
    """Item 120: of 10 the sibling lends 4, so 2 of 9 are borrowed."""
    tree = QuotaTree([one("q", 5, "c"), one("other", quota(10, ll=4), "c")])
    tree.add("q", {GPU: 7})

    assert share_of(tree.queues["q"]).value == pytest.approx(2000 / 9)


def test_nothing_to_lend() -> None:
    """Item 120: over-use of what nobody lends is borrowing without a share."""
    tree = QuotaTree([one("q", quota(0), "c"), one("other", quota(4, ll=0), "c")])
    tree.add("q", {GPU: 3})
    share = share_of(tree.queues["q"])

    assert (share.value, share.borrowing) == (0, True)


def test_without_a_cohort_there_is_no_share() -> None:
    """Whatever it uses."""
    tree = QuotaTree([one("q", 1)])
    tree.add("q", {GPU: 9})

    assert share_of(tree.queues["q"]) == Share()


@pytest.mark.parametrize(("used", "shown"), [(5, 0), (6, INFINITE)])
def test_without_weight_any_borrowing_is_infinite(used: int, shown: int) -> None:
    """Item 51: and nothing as long as it does not borrow."""
    tree = QuotaTree([one("q", 5, "c", fair_weight=0.0), one("other", 10, "c")])
    tree.add("q", {GPU: used})

    assert share_of(tree.queues["q"]).shown() == shown


def test_comparison() -> None:
    """Finite by value; infinite above all of them, and among themselves by what is used."""
    ordered = [
        Share(),
        Share(100, 2.0),
        Share(100),
        Share(10**9),
        Share(1, 0.0),
        Share(2, 0.0),
    ]
    for index, share in enumerate(ordered):
        assert all(share < later for later in ordered[index + 1 :])
        assert all(share > earlier for earlier in ordered[:index])
    assert Share(100, 2.0) == Share(50)
    assert hash(Share(100, 2.0)) == hash(Share(50))
    assert Share(0, 0.0) == Share()
    assert Share(1, 0.0).value == math.inf


def test_what_could_be_lent_is_remembered() -> None:
    """It depends on quotas only, so one answer serves all children of a cohort."""
    tree = QuotaTree([one("q", 5, "c"), one("other", 15, "c")])
    tree.add("q", {GPU: 6})
    memory: dict[tuple[str, str], int] = {}

    assert share_of(tree.queues["q"], memory) == share_of(tree.queues["q"])
    assert memory == {("c", "gpu"): 20}
    tree.add("other", {GPU: 17})
    assert share_of(tree.queues["other"], memory).value == 100
