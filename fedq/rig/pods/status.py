"""Statuses of a pod as a kubelet writes them, as merge patches: lists are whole."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def running(pod: Json, moment: str) -> Json:
    """All containers started at `moment` (RFC 3339)."""
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()]
    true = ["PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready", *gates]
    changed = [{"type": t, "status": "True", "lastTransitionTime": moment} for t in true]
    return {
        "phase": "Running",
        "startTime": moment,
        "hostIP": "127.0.0.1",
        "conditions": _conditions(pod, changed),
        "containerStatuses": [
            _container(every, running=True, state={"running": {"startedAt": moment}})
            for every in pod["spec"]["containers"]
        ],
    }


def ended(pod: Json, code: int, moment: str, refused: str = "") -> Json:
    """All containers ended at `moment` with exit code `code`; `refused` is why they could not be
    started.
    """
    reason = "PodFailed" if code else "PodCompleted"
    started = (pod.get("status") or {}).get("startTime") or moment
    terminated = {
        "exitCode": code,
        "reason": "StartError" if refused else "Error" if code else "Completed",
        "message": refused,
        "startedAt": started,
        "finishedAt": moment,
    }
    changed = [
        {"type": t, "status": "False", "reason": reason, "lastTransitionTime": moment}
        for t in ("ContainersReady", "Ready")
    ]
    return {
        "phase": "Failed" if code else "Succeeded",
        "startTime": started,
        "conditions": _conditions(pod, changed),
        "containerStatuses": [
            _container(every, running=False, state={"terminated": terminated})
            for every in pod["spec"]["containers"]
        ],
    }


def _conditions(pod: Json, changed: list[Json]) -> list[Json]:
    """Those of the pod, which are others' too, with these in their place."""
    found = (pod.get("status") or {}).get("conditions") or ()
    types = {condition["type"] for condition in changed}
    return [*(condition for condition in found if condition["type"] not in types), *changed]


def _container(spec: Json, *, running: bool, state: Json) -> Json:
    return {
        "name": spec["name"],
        "image": spec.get("image", ""),
        "imageID": "",
        "ready": running,
        "started": running,
        "restartCount": 0,
        "state": state,
    }
