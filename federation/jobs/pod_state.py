"""How far a pod has come, as the API server shows it."""

from __future__ import annotations

from typing import Any

from federation.api.names import Gate

Json = dict[str, Any]

ENDED = ("Succeeded", "Failed")
"""Phases in which a pod runs no more."""


def ended(pod: Json) -> bool:
    """Whether it runs no more."""
    return (pod.get("status") or {}).get("phase") in ENDED


def gated(spec: Json, gate: Gate) -> bool:
    """Whether a pod with this spec waits for that."""
    return any(found["name"] == gate for found in spec.get("schedulingGates") or ())
