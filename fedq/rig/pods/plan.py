"""What the process of a pod is to be: pure functions over the pod.

A real process stands for the containers of a pod with the label `fedq.io/process: "true"`: a label,
so that the runner hears of no other pod. Annotations, beside those of `stages.yaml`:

    fedq.io/ignore-sigterm "true": it does not end before its time, unless by SIGKILL

Put both on the Job's pod template.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fedq.rig.pods.process import NEVER

Json = dict[str, Any]

PROCESS: Final = "fedq.io/process"
JOB_UID: Final = "FEDQ_JOB_UID"
ATTEMPT: Final = "FEDQ_ATTEMPT"
POLICY: Final = "FEDQ_ON_DISCONNECT"
EPOCH: Final = "FEDQ_EPOCH"
CARDS: Final = "nvidia.com/gpu"

DEFAULT_GRACE = 30.0
"""Seconds from SIGTERM to SIGKILL where a pod does not say."""
_FIELD = re.compile(r"metadata\.(annotations|labels)\['(.+)'\]")
_CARDS = "hami.io/vgpu-devices-allocated"
_FOREVER = 10.0**8


@dataclass(frozen=True, slots=True)
class Plan:
    """How to run the process of one pod. `about` is what its start record says of it."""

    uid: str
    name: str
    env: dict[str, str]
    about: Json
    seconds: float
    exit: int
    stop: str

    def arguments(self, file: str) -> list[str]:
        """Of the program `process.py`."""
        return [file, json.dumps(self.about), str(self.seconds), str(self.exit), self.stop]


def pods_mark(home: Path | str, cluster: str) -> str:
    """What the processes of pods carry as `fedq.rig.process.MARK`. It is not that of their runner:
    whoever stops the runner does not mean the pods.
    """
    return f"{home}:pods/{cluster}"


def handled(pod: Json) -> bool:
    """Whether the pod is one for the runner: marked, and bound to a node."""
    labels = pod["metadata"].get("labels") or {}
    return labels.get(PROCESS) == "true" and bool(pod["spec"].get("nodeName"))


def plan_of(pod: Json, cluster: str) -> Plan:
    """What to run for a pod."""
    meta, own = pod["metadata"], notes(pod)
    env = {key: value for container in _containers(pod) for key, value in _env(container, pod)}
    name = f"{meta['namespace']}/{meta['name']}"
    about = {
        "job": env.get(JOB_UID) or _controller(pod),
        "attempt": _whole(env.get(ATTEMPT), 0),
        "epoch": _whole(env.get(EPOCH), 0),
        "pod": meta["uid"],
        "name": name,
        "cluster": cluster,
        "policy": env.get(POLICY) or "stop",
        "gpus": _cards_asked(pod),
        "devices": _cards_given(own.get(_CARDS, "")),
    }
    runs_on = (pod["spec"].get("restartPolicy") or "Always") == "Always"
    return Plan(
        uid=meta["uid"],
        name=name,
        env=env,
        about=about,
        seconds=_FOREVER if runs_on else _seconds(own.get("fedq.io/run-seconds"), 1.0),
        exit=_whole(own.get("fedq.io/exit-code"), 0),
        stop=NEVER
        if own.get("fedq.io/ignore-sigterm") == "true"
        else str(_seconds(own.get("fedq.io/stop-seconds"), 0.0)),
    )


def grace_of(pod: Json) -> float:
    """Seconds from SIGTERM to SIGKILL, of the deletion if there is one."""
    for given in (
        pod["metadata"].get("deletionGracePeriodSeconds"),
        pod["spec"].get("terminationGracePeriodSeconds"),
    ):
        if given is not None:
            return float(given)
    return DEFAULT_GRACE


def notes(pod: Json) -> Mapping[str, str]:
    """The annotations of a pod."""
    return pod["metadata"].get("annotations") or {}


def _containers(pod: Json) -> list[Json]:
    return list(pod["spec"].get("containers") or ())


def _env(container: Json, pod: Json) -> Iterator[tuple[str, str]]:
    """Plain values, and fields of the pod; what comes from other objects is left out."""
    for variable in container.get("env") or ():
        source = variable.get("valueFrom")
        if not source:
            yield variable["name"], variable.get("value") or ""
        elif path := (source.get("fieldRef") or {}).get("fieldPath"):
            yield variable["name"], _field(pod, path)


def _field(pod: Json, path: str) -> str:
    if match := _FIELD.fullmatch(path):
        return str((pod["metadata"].get(match[1]) or {}).get(match[2], ""))
    found: Any = pod
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return "" if found is None else str(found)


def _controller(pod: Json) -> str:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller")), "")


def _cards_asked(pod: Json) -> int:
    limits = ((c.get("resources") or {}).get("limits") or {} for c in _containers(pod))
    return sum(_whole(str(every.get(CARDS)), 0) for every in limits)


def _cards_given(text: str) -> dict[str, list[float]]:
    """Cores and MiB by card, summed over containers, from `uuid,TYPE,MiB,cores:…;…`."""
    found: dict[str, list[float]] = {}
    for card in re.split("[:;]", text):
        fields = card.split(",")
        if len(fields) >= 4:
            used = found.setdefault(fields[0], [0.0, 0.0])
            used[0] += _seconds(fields[3], 0.0)
            used[1] += _seconds(fields[2], 0.0)
    return found


def _whole(text: str | None, default: int) -> int:
    return int(text) if text and re.fullmatch(r"\d{1,9}", text) else default


def _seconds(text: str | None, default: float) -> float:
    return float(text) if text and re.fullmatch(r"\d{1,9}(\.\d*)?", text) else default
