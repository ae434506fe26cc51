"""What follows from the answer of a cluster to a write of a copy."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from federation.core.facts import ObjectKey, RemoteJob
from manager.copies import Copies
from manager.outcomes import AFTER_CONFLICT_S, Again
from manager.protocol import Outcome, Result

COPY = RemoteJob("a", ObjectKey("team", "r"), "x", 7, 1, suspended=False)


@pytest.mark.parametrize(("version", "after"), [(8, AFTER_CONFLICT_S), (7, None)])
def test_what_is_refused_of_a_copy_is_not_tried_again_at_once(
    version: int, after: float | None
) -> None:
    """Unless the copy has changed: its plan is another one then."""
    controller = cast(Any, SimpleNamespace(feed=lambda uid, event: None))
    copies = Copies(cast(Any, None), controller, cast(Any, None), "o")
    outcome = Outcome(Result.RETRY, "Invalid", "too long", replace(COPY, version=version))
    with pytest.raises(Again) as found:
        copies._take("u", COPY, outcome)
    assert found.value.after == after
