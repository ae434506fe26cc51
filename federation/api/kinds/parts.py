"""Which objects are parts of a job, as its operator has made them: by their controller.

Kueue leaves such objects to their owner, too (the admission specification, section 8).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from federation.api.kinds.table import ROWS, SCALED

WHOLES: Final = (
    "batch/Job",
    *(f"{row.group}/{row.kind}" for row in (*ROWS, *SCALED)),
)
"""GROUP/KIND of what jobs are made by."""


def is_part(obj: Mapping[str, Any]) -> bool:
    """Whether its controller is a job of a kind of the table."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return any(
        owner.get("controller")
        and f"{str(owner.get('apiVersion')).partition('/')[0]}/{owner.get('kind')}" in WHOLES
        for owner in owners
    )


def is_part_cel(node: str) -> str:
    """CEL: the same of `object` or `oldObject`. Not of a pod or a batch/v1 Job, which operators
    give no marks: manager and agents take one for what its marks say, whoever owns it.
    """
    owners = f"{node}.metadata.ownerReferences"
    return (
        f"(!(request.resource.group in ['', 'batch']) && has({owners}) && "
        f"{owners}.exists(o, has(o.controller) && o.controller && "
        f"(o.apiVersion.split('/')[0] + '/' + o.kind) in {list(WHOLES)}))"
    )
