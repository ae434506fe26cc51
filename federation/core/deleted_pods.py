"""Copies of groups of which somebody deleted pods on the cluster: they have not succeeded.

Nobody knows what became of those pods. Once nothing of the copy runs it is taken for stopped.
"""

from __future__ import annotations

from federation.core.facts import LocalJob, RemoteJob


def torn(local: LocalJob, copy: RemoteJob) -> bool:
    """Whether pods of a copy were deleted and nothing of it runs.

    One that failed and was replaced stays there. With it there may be as many pods as belong to the
    group though one is gone, and the copy seems to wait for another pod. The job knows better, once
    the copy has been told who is in the group: whoever is, has not failed and is not there was
    deleted, and nobody can take its place.
    """
    if copy.torn or not copy.lacking or local.live != copy.live:
        return copy.torn
    there = copy.status.get("pods") or {}
    return any(
        name not in there and status.get("phase") != "Failed"
        for name, status in (local.status.get("pods") or {}).items()
    )
