"""What an agent tells with each renewal of the Lease (annotation `fedq.io/renewal`, JSON).

`of` is the renewTime of the renewal that it belongs to: agents of before that know of no such note
leave it as it is. `known` is the renewTime of the last renewal of which the agent had the answer,
and whose lease had not ended when this one was sent; '' if there is none. `breaks` counts how often
the lease of the cluster may have ended so far, the beginning included: what ran may have been
stopped each time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from federation.api.epochs import read_epoch
from federation.api.names import Lease


@dataclass(frozen=True, slots=True)
class Told:
    """Nothing was told if `breaks` is 0."""

    of: str = ""
    known: str = ""
    breaks: int = 0


def read_renewal(lease: Mapping[str, Any]) -> Told:
    """What is noted on a Lease. What makes no sense counts as not told."""
    text = (lease["metadata"].get("annotations") or {}).get(Lease.RENEWAL.value)
    if text is None:
        return Told()
    try:
        body = json.loads(text)
        return Told(str(body["of"]), str(body["known"]), read_epoch(body["breaks"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return Told()


def renewal_note(told: Told) -> str:
    """The annotation."""
    body = {"of": told.of, "known": told.known, "breaks": told.breaks}
    return json.dumps(body, separators=(",", ":"))
