"""Copies of groups of pods of which some were deleted on their cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from federation.core.deleted_pods import torn
from tests.unit.core.build import copy, local


@pytest.mark.parametrize(
    ("home", "there", "lost"),
    [
        ({"b": "Running", "c": "Succeeded"}, "ac", True),
        ({"b": "Succeeded", "c": "Succeeded"}, "ac", True),
        ({"a": "Failed", "b": "Running", "c": "Succeeded"}, "ac", True),
        ({"a": "Failed", "c": "Succeeded"}, "ac", False),
        ({"b": "Failed", "c": "Succeeded"}, "ac", False),
    ],
    ids=["it ran", "it had ended", "head replaced", "all are there", "it may be replaced"],
)
def test_whether_it_waits_for_a_pod_that_never_comes(
    home: dict[str, str], there: str, lost: bool
) -> None:
    """It does for one that is gone and is not known to have failed."""
    pods = {name: {"phase": phase} for name, phase in home.items()}
    mine = replace(local(), live="1", status={"pods": pods})
    theirs = copy(lacking=True, live="1", status={"pods": {name: {} for name in there}})
    assert torn(mine, theirs) is lost
    assert not torn(mine, replace(theirs, lacking=False))  # something of it runs
    assert not torn(mine, replace(theirs, live="0"))  # it is about to be told of another pod
