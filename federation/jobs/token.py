"""The token by which the pods of a job prove which attempt they are (tier C).

It is in the environment of every container and, for the downward API, in annotations of the pods.
What an attempt writes carries its number, and a store refuses a number lower than the highest it
has seen: so a copy that should be dead, and does not know it, spoils nothing. The number stays the
same when a copy goes on after it was held or adopted. A guard on the node finds by the same names
the processes that it has to end.
"""

from __future__ import annotations

from typing import Any

from federation.api.names import Label, Mirror, Token
from federation.jobs.mirror import Identity
from federation.jobs.template import grace_seconds

Json = dict[str, Any]

_NAMES = frozenset(token.value for token in Token)


def add(template: Json, identity: Identity) -> None:
    """Write the token into a pod template. Variables of these names that are there already, as in a
    manifest made from a running pod, say what was true of another attempt: they are replaced.
    """
    meta = template["metadata"] = template.get("metadata") or {}
    notes = {
        Mirror.ATTEMPT.value: str(identity.attempt),
        Mirror.LOCAL_UID.value: identity.local_uid,
    }
    meta["annotations"] = {**(meta.get("annotations") or {}), **notes}
    meta["labels"] = {**(meta.get("labels") or {}), Label.MULTIKUEUE_WORKER_POD.value: "true"}
    given = {
        Token.ATTEMPT.value: str(identity.attempt),
        Token.JOB_UID.value: identity.local_uid,
        Token.ON_DISCONNECT.value: identity.disconnect.policy.value,
        Token.GRACE.value: str(grace_seconds(template)),
    }
    if identity.disconnect.rerun_after is not None:
        given[Token.RERUN_AFTER.value] = f"{identity.disconnect.rerun_after:.0f}"
    for part in ("initContainers", "containers"):
        for container in template["spec"].get(part) or ():
            kept = [v for v in container.get("env") or [] if v["name"] not in _NAMES]
            added = [{"name": name, "value": value} for name, value in given.items()]
            container["env"] = [*kept, *added]
