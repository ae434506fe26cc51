"""What several sources add to pods: merged where they agree, told where they do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.pod_updates import Conflict, PodSetUpdate, merged
from federation.core.types import Toleration
from tests.unit.core.build import FEW

SPOT, GPU = Toleration("spot", "Exists"), Toleration("gpu", value="yes")


def test_sources_add_up() -> None:
    result = merged(
        "main",
        [
            PodSetUpdate("main", {"a": "1"}, {"n": "1"}, {"zone": "x"}, (SPOT,)),
            PodSetUpdate("other", {"a": "2"}, {"n": "2"}, {"zone": "y"}, (GPU,)),
            PodSetUpdate("main", {"b": "2"}, {"m": "1"}, {"zone": "x", "disk": "ssd"}, (GPU, SPOT)),
        ],
    )
    assert result == PodSetUpdate(
        "main",
        {"a": "1", "b": "2"},
        {"n": "1", "m": "1"},
        {"zone": "x", "disk": "ssd"},
        (SPOT, GPU),
    )


def test_no_sources_add_nothing() -> None:
    assert merged("main", []) == PodSetUpdate("main")


@pytest.mark.parametrize(
    ("field", "what"),
    [("labels", "label"), ("annotations", "annotation"), ("node_selector", "nodeSelector")],
)
def test_different_values_of_one_key_conflict(field: str, what: str) -> None:
    first = PodSetUpdate("main", **{field: {"same": "1", "z": "1", "k": "old"}})
    second = PodSetUpdate("main", **{field: {"z": "2", "k": "new", "same": "1"}})

    conflict = merged("main", [first, second])

    assert conflict == Conflict("main", what, "k", ("old", "new"))
    assert str(conflict) == (
        f"pod set main: {what} 'k' is 'old' and is to become 'new'; only one can be"
    )


def test_sources_are_not_changed_by_merging() -> None:
    first = PodSetUpdate("main", {"a": "1"})
    merged("main", [first, PodSetUpdate("main", {"b": "2"})])
    assert first.labels == {"a": "1"}


_LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3)


@given(st.lists(_LABELS, max_size=4))
@FEW
def test_merging_fails_exactly_when_two_sources_differ(labels: list[dict[str, str]]) -> None:
    values: dict[str, set[str]] = {}
    for source in labels:
        for key, value in source.items():
            values.setdefault(key, set()).add(value)

    result = merged("p", [PodSetUpdate("p", source) for source in labels])

    if any(len(seen) > 1 for seen in values.values()):
        assert isinstance(result, Conflict)
    else:
        assert isinstance(result, PodSetUpdate)
        assert result.labels == {key: value for key, (value,) in values.items()}
