"""Selectors, taints and affinity, as Kubernetes and Kueue's flavor assigner judge them."""

from __future__ import annotations

from typing import Any

import pytest

from federation.core.matching import affinity_matches, selects, untolerated
from federation.core.types import LabelSelector, ResourceFlavor, Taint, Term, Toleration
from tests.unit.core.build import pods

LABELS = {"team": "a", "cores": "8"}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, False),
        (LabelSelector(), True),
        (LabelSelector((("team", "a"),)), True),
        (LabelSelector((("team", "b"),)), False),
        (LabelSelector((("team", "a"), ("zone", "x"))), False),
        (LabelSelector((), (("team", "In", ("a", "b")),)), True),
        (LabelSelector((), (("team", "In", ("b",)),)), False),
        (LabelSelector((), (("zone", "In", ("x",)),)), False),
        (LabelSelector((), (("team", "NotIn", ("b",)),)), True),
        (LabelSelector((), (("zone", "NotIn", ("b",)),)), True),
        (LabelSelector((), (("team", "NotIn", ("a",)),)), False),
        (LabelSelector((), (("team", "Exists", ()),)), True),
        (LabelSelector((), (("zone", "Exists", ()),)), False),
        (LabelSelector((), (("zone", "DoesNotExist", ()),)), True),
        (LabelSelector((), (("team", "DoesNotExist", ()),)), False),
        (LabelSelector((), (("team", "Nonsense", ("a",)),)), False),
        (LabelSelector((("team", "a"),), (("team", "In", ("b",)),)), False),
    ],
)
def test_selects(selector: LabelSelector | None, expected: bool) -> None:
    """Absent selects nothing, empty selects all; all requirements must hold."""
    assert selects(selector, LABELS) is expected


GPU = Taint("gpu", "yes", "NoSchedule")
ANY = Toleration(operator="Exists")


@pytest.mark.parametrize(
    ("toleration", "taint", "tolerates"),
    [
        (Toleration("gpu", "Equal", "yes"), GPU, True),
        (Toleration("gpu", "Equal", "no"), GPU, False),
        (Toleration("gpu", "Exists"), GPU, True),
        (Toleration("cpu", "Exists"), GPU, False),
        (Toleration("gpu", "Exists", effect="NoSchedule"), GPU, True),
        (Toleration("gpu", "Exists", effect="NoExecute"), GPU, False),
        (ANY, GPU, True),
        (Toleration(operator="Exists", effect="NoExecute"), GPU, False),
        (Toleration("", "Equal", "yes"), GPU, False),
        (Toleration("gpu", "Equal", ""), Taint("gpu"), True),
    ],
)
def test_toleration(toleration: Toleration, taint: Taint, tolerates: bool) -> None:
    """core/v1 Toleration.ToleratesTaint."""
    assert toleration.tolerates(taint) is tolerates


@pytest.mark.parametrize(
    ("taints", "of_pods", "of_flavor", "problem"),
    [
        ((GPU,), (), (), "gpu=yes:NoSchedule"),
        ((GPU,), (ANY,), (), ""),
        ((GPU,), (), (ANY,), ""),
        ((Taint("gpu", "", "NoExecute"),), (), (), "gpu=:NoExecute"),
        ((Taint("gpu", "", "PreferNoSchedule"),), (), (), ""),
        ((GPU, Taint("spot")), (Toleration("gpu", "Exists"),), (), "spot=:NoSchedule"),
        ((GPU, Taint("spot")), (Toleration("gpu", "Exists"),), (Toleration("spot", "Exists"),), ""),
    ],
)
def test_untolerated(
    taints: tuple[Taint, ...],
    of_pods: tuple[Toleration, ...],
    of_flavor: tuple[Toleration, ...],
    problem: str,
) -> None:
    """§5.4: those of the pods and of the flavor; PreferNoSchedule is ignored."""
    flavor = ResourceFlavor("f", taints=taints, tolerations=of_flavor)
    assert untolerated(pods(tolerations=of_pods), flavor) == problem


FLAVOR = ResourceFlavor("f", node_labels=(("card", "a100"), ("cores", "8")))
IN_A100: Term = (("card", "In", ("a100", "h100")),)
IN_H100: Term = (("card", "In", ("h100",)),)
ZONE: Term = (("zone", "In", ("x",)),)


@pytest.mark.parametrize(
    ("fields", "matches"),
    [
        ({}, True),
        ({"node_selector": (("card", "a100"),)}, True),
        ({"node_selector": (("card", "h100"),)}, False),
        ({"node_selector": (("zone", "x"),)}, True),
        ({"node_selector": (("zone", "x"), ("card", "h100"))}, False),
        ({"affinity": (IN_A100,)}, True),
        ({"affinity": (IN_H100,)}, False),
        ({"affinity": (IN_H100, IN_A100)}, True),
        ({"affinity": (ZONE,)}, True),
        ({"affinity": (IN_H100, ZONE)}, True),
        ({"affinity": (IN_H100 + ZONE,)}, False),
        ({"affinity": (ZONE,), "node_selector": (("card", "h100"),)}, False),
        ({"affinity": ((("cores", "Gt", ("4",)),),)}, True),
        ({"affinity": ((("cores", "Gt", ("8",)),),)}, False),
        ({"affinity": ((("cores", "Lt", ("9",)),),)}, True),
        ({"affinity": ((("cores", "Gt", ("many",)),),)}, False),
        ({"affinity": ((("card", "Gt", ("1",)),),)}, False),
        ({"affinity": ((("card", "DoesNotExist", ()),),)}, False),
        ({"affinity": ((("card", "Exists", ()),),)}, True),
        ({"affinity": ((("card", "NotIn", ("h100",)),),)}, True),
    ],
)
def test_affinity(fields: dict[str, Any], matches: bool) -> None:
    """§5.5: only keys of the flavor count, terms are alternatives, an emptied term matches."""
    assert affinity_matches(pods(**fields), FLAVOR) is matches
