"""Pods as holders of cards: what is seen of them is taken over into the ledger."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from federation.core.devices.ledger.ledger import Ledger
from federation.core.devices.wire.allocation_note import BIND_PHASE, BIND_TIME, NODE
from federation.core.policies import ResourceRules
from federation.edge.deletions import Deletions
from federation.edge.informer import Key, key_of
from federation.edge.resources import Json
from federation.jobs.device_pins import mark_of
from federation.jobs.pod_state import ended
from worker_agent.device_nodes import DeviceNodes
from worker_agent.device_pods import Shape, job_of, observed, seconds, shape_of, thin
from worker_agent.rooms import Rooms

ALLOCATING = "allocating"
_SHAPES_KEPT = 4096


class DevicePods:
    """Informer handler of pods. `moved` hears of the Jobs whose pods have changed, by UID, and
    `freed` that something may fit now.
    """

    def __init__(
        self,
        ledger: Ledger,
        rooms: Rooms,
        nodes: DeviceNodes,
        rules: ResourceRules,
        moved: Callable[[str], None],
        freed: Callable[[], None],
    ) -> None:
        self._ledger, self._rooms, self._nodes, self._rules = ledger, rooms, nodes, rules
        self._moved, self._freed = moved, freed
        self._shapes: dict[str, Shape] = {}
        self._alike: dict[Shape, Shape] = {}
        self._uid_of: dict[Key, str] = {}
        self._job_of: dict[str, str] = {}
        self._by_job: dict[str, dict[str, Json]] = {}
        self._versions: dict[str, int] = {}
        self._left = Deletions()
        self.keys: dict[str, Key] = {}
        """Namespace and name of each pod, by UID."""
        self.allocating: dict[str, tuple[str, float]] = {}
        """Pods whose cards a device plugin has yet to hand over: node, and since when."""
        self.on_served: Callable[[str], None] = lambda host: None
        """Hears of nodes on which one is allocating no more."""

    def of_job(self, job: str) -> list[Json]:
        """The pods of a Job that run or are to run, as far as their seats matter."""
        return list(self._by_job.get(job, {}).values())

    def job(self, pod: str) -> str:
        """UID of the Job of a pod that runs or is to run; '' if it is of none."""
        return self._job_of.get(pod, "")

    def on_list(self, items: Sequence[Json], resource_version: str) -> None:
        """See Handler."""
        present = {item["metadata"]["uid"] for item in items}
        for uid in self.keys.keys() - present:
            self._leave(uid, int(resource_version))
        self._ledger.retain(present)
        for item in items:
            self.on_event("MODIFIED", item)

    def on_event(self, type: str, obj: Json) -> None:
        """See Handler. A name may come again before its pod was seen to go."""
        uid, version = obj["metadata"]["uid"], int(obj["metadata"]["resourceVersion"])
        before = self._uid_of.get(key_of(obj), uid)
        if before != uid:
            if version < self._versions.get(before, 0):
                return
            self._leave(before, version)
        if type == "DELETED" or ended(obj):
            self._leave(uid, version)
        elif not self._left.covers(uid, version) and version > self._versions.get(uid, 0):
            self._see(uid, obj)
            self._versions[uid] = version

    def _see(self, uid: str, pod: Json) -> None:
        known = self._shapes.get(uid)
        if known is None:
            self._uid_of[key_of(pod)], self.keys[uid] = uid, key_of(pod)
            found = shape_of(pod, self._rules)
            if len(self._alike) >= _SHAPES_KEPT:
                self._alike.clear()
            known = self._shapes[uid] = self._alike.setdefault(found, found)
        node = pod["spec"].get("nodeName", "")
        if known.wants or known.trouble:
            notes = pod["metadata"].get("annotations") or {}
            cards = self._nodes.cards(node or notes.get(NODE, ""))
            self._ledger.observe(observed(pod, known, cards, self._rules.vendors))
            holding = self._ledger.holding(uid)
            node = node or (holding.host if holding is not None else "")
        if node:
            self._rooms.put(uid, node, known.requests)
        else:
            self._rooms.drop(uid)
        self._allocate(uid, pod)
        self._tell(uid, job_of(pod), thin(pod))

    def _allocate(self, uid: str, pod: Json) -> None:
        notes = pod["metadata"].get("annotations") or {}
        phase = (pod.get("status") or {}).get("phase") or "Pending"
        noted = notes.get(BIND_PHASE) == ALLOCATING and phase == "Pending" and NODE in notes
        if noted and _may_start(pod):
            self.allocating[uid] = notes[NODE], seconds(notes.get(BIND_TIME, ""))
        else:
            self._served(uid)

    def _served(self, uid: str) -> None:
        known = self.allocating.pop(uid, None)
        if known is not None:
            self.on_served(known[0])

    def _tell(self, uid: str, job: str, pod: Json) -> None:
        if job:
            self._job_of[uid] = job
            pods = self._by_job.setdefault(job, {})
            if pods.get(uid) != pod:
                pods[uid] = pod
                self._moved(job)
        self._freed()

    def _leave(self, uid: str, version: int) -> None:
        """A pod has ended or is gone; what is older is no news of it."""
        self._left.note(uid, version)
        shape = self._shapes.get(uid)
        if shape is not None and (shape.wants or shape.trouble):
            self._ledger.release(uid)
        self._forget(uid)

    def _forget(self, uid: str) -> None:
        key = self.keys.pop(uid, None)
        if key is not None and self._uid_of.get(key) == uid:
            del self._uid_of[key]
        self._shapes.pop(uid, None)
        self._versions.pop(uid, None)
        self._rooms.drop(uid)
        self._served(uid)
        job = self._job_of.pop(uid, "")
        if job:
            self._by_job[job].pop(uid)
            if not self._by_job[job]:
                del self._by_job[job]
            self._moved(job)
        self._freed()


def _may_start(pod: Json) -> bool:
    """Whether a kubelet may ask for its cards: notes alone, which anybody can write, do not do."""
    if pod["spec"].get("schedulingGates"):
        return False
    return bool(pod["spec"].get("nodeName") or (job_of(pod) and mark_of(pod) is not None))
