"""The remote copy of a local object: what is carried over, what proves whose it is.

A copy keeps namespace and name. Ownership is proved by origin and local UID, never by the name.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from federation.api.disconnect import write_disconnect
from federation.api.names import Label, Mirror
from federation.core.wishes import Disconnect

Json = dict[str, Any]

_DROPPED_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_DROPPED_ANNOTATIONS = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "batch.kubernetes.io/job-tracking",
)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a copy belongs to. `origin` is the UUID of this management cluster's manager.

    `queued_at` is the creation time of the local object (RFC 3339) and `priority` the effective
    one: the agent orders by them. `disconnect` is what it does when it is cut off.
    """

    origin: str
    local_uid: str
    attempt: int
    epoch: int
    queued_at: str
    priority: int
    disconnect: Disconnect = field(default_factory=Disconnect)

    def annotations(self) -> dict[str, str]:
        """As written on the copy."""
        return {
            Mirror.LOCAL_UID.value: self.local_uid,
            Mirror.ATTEMPT.value: str(self.attempt),
            Mirror.EPOCH.value: str(self.epoch),
            Mirror.QUEUED_AT.value: self.queued_at,
            Mirror.PRIORITY.value: str(self.priority),
            **write_disconnect(self.disconnect),
        }


def copy_metadata(local: Json, identity: Identity) -> Json:
    """Metadata of the copy: no owner, no finalizers, nothing the server sets."""
    own = local["metadata"]
    labels = {k: v for k, v in (own.get("labels") or {}).items() if k not in _DROPPED_LABELS}
    annotations = {
        key: value
        for key, value in (own.get("annotations") or {}).items()
        if key not in _DROPPED_ANNOTATIONS and not key.startswith("fedq.io/")
    }
    return {
        "name": own["name"],
        "namespace": own["namespace"],
        "labels": {**labels, Label.MULTIKUEUE_ORIGIN.value: identity.origin},
        "annotations": {**annotations, **identity.annotations()},
    }


def copy_spec(local: Json, dropped: tuple[str, ...]) -> Json:
    """A deep copy of the spec without the fields named."""
    return {key: deepcopy(value) for key, value in local["spec"].items() if key not in dropped}


def without_controller_labels(template: Json) -> None:
    """Drop in place the labels by which the local Job's controller selects its own pods."""
    labels = (template.get("metadata") or {}).get("labels")
    for key in [*_DROPPED_LABELS, "job-name", "batch.kubernetes.io/job-name"]:
        if labels:
            labels.pop(key, None)


def mirrored_attempt(obj: Json) -> int:
    """The attempt of a copy; 0 if it is none."""
    return _number(obj, Mirror.ATTEMPT)


def mirrored_epoch(obj: Json) -> int:
    """The epoch in which a copy was offered; 0 if that is not said."""
    return _number(obj, Mirror.EPOCH)


def mirrored_priority(obj: Json) -> int:
    """The effective priority written by the manager."""
    return _number(obj, Mirror.PRIORITY)


def _number(obj: Json, key: Mirror) -> int:
    text = (obj["metadata"].get("annotations") or {}).get(key.value, "")
    try:
        number = int(text)
    except ValueError:
        return 0
    return number if abs(number) < 2**31 else 0
