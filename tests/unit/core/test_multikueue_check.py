"""The condition Active of MultiKueue's AdmissionChecks."""

from __future__ import annotations

import pytest

from federation.core.multikueue_check import Standing, bad_config, check_active

UP, DOWN = Standing.USABLE, Standing.INACTIVE


@pytest.mark.parametrize(
    ("standings", "active", "reason", "message"),
    [
        ({"a": UP, "b": UP, "other": DOWN}, True, "Active", "The admission check is active"),
        ({"a": UP, "b": DOWN}, True, "SomeActiveClusters", "Inactive clusters: [b]"),
        ({"b": UP}, True, "SomeActiveClusters", "Missing clusters: [a]"),
        ({"a": DOWN, "b": DOWN}, False, "NoUsableClusters", "Inactive clusters: [a, b]: "),
        ({}, False, "NoUsableClusters", "Missing clusters: [a, b]: create"),
        (
            {"a": DOWN},
            False,
            "NoUsableClusters",
            "Missing clusters: [b], Inactive clusters: [a]: ",
        ),
    ],
)
def test_by_how_its_clusters_stand(
    standings: dict[str, Standing], active: bool, reason: str, message: str
) -> None:
    """With the names of those that are missing, and of those that are not active."""
    found = check_active(["a", "b"], standings)
    assert (found.active, found.reason) == (active, reason)
    assert found.message.startswith(message)


def test_without_a_config() -> None:
    """The problem follows Kueue's words."""
    found = bad_config("it is gone")
    assert found == (
        False,
        "BadConfig",
        "cannot load the AdmissionChecks parameters: it is gone",
    )
