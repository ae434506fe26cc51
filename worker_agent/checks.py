"""The admission checks of this cluster's queues, for which local Jobs and copies wait.

Those of the manager's own queues are done before it offers a copy. The checks of MultiKueue are
decided by a manager, so that nothing waits for one here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from federation.api.names import ConditionType, Controller
from federation.api.record import is_true
from federation.core.checks import required
from federation.core.role_sharing import runs_here
from federation.core.types import Admission, ClusterQueue
from federation.edge.informer import Informer, Store
from federation.edge.kube import KubeClient
from federation.edge.resources import ADMISSION_CHECKS, Json


class Check(NamedTuple):
    """Who decides a check, and whether its controller says that it can."""

    controller: str
    active: bool


class Checks:
    """Keeps up with the AdmissionChecks. `informer` has to be run."""

    def __init__(self, client: KubeClient, on_change: Callable[[], None]) -> None:
        self._store: Store[Check] = Store(_read, lambda key, old, new: on_change())
        self.informer = Informer(client, ADMISSION_CHECKS, self._store)

    def names(self, queue: ClusterQueue | None, admission: Admission | None) -> tuple[str, ...]:
        """Those that a Job needs with an admission, or before it has one; sorted."""
        if queue is None or not queue.checks:
            return ()
        return tuple(n for n in required(queue, admission) if not self._of_multikueue(n))

    def all(self, queue: ClusterQueue | None) -> tuple[str, ...]:
        """Those that Jobs in a queue may need."""
        names = queue.check_names if queue else ()
        return tuple(name for name in dict.fromkeys(names) if not self._of_multikueue(name))

    def dispatched(self, queue: ClusterQueue) -> bool:
        """Whether a queue of a management cluster sends its jobs to worker clusters."""
        known = (self._store.items.get(("", name)) for name in queue.check_names)
        here = runs_here(c and c.controller == Controller.MULTIKUEUE for c in known)
        return here is False

    def problem(self, queue: ClusterQueue) -> str:
        """Why its checks keep a queue from admitting anything; '' if they do not."""
        found = self._store.items
        known: dict[str, Check | None] = {n: found.get(("", n)) for n in self.all(queue)}
        if missing := [name for name, check in known.items() if check is None]:
            return f"AdmissionCheck {', '.join(missing)} does not exist"
        if idle := [name for name, check in known.items() if check and not check.active]:
            return f"AdmissionCheck {', '.join(idle)} is not active"
        return ""

    def delaying(self) -> frozenset[str]:
        """Those that have nodes made: places on nodes are sought when they are Ready."""
        found = self._store.items.items()
        return frozenset(
            name for (_, name), c in found if c.controller == Controller.PROVISIONING_REQUEST
        )

    def _of_multikueue(self, name: str) -> bool:
        found = self._store.items.get(("", name))
        return found is not None and found.controller == Controller.MULTIKUEUE


def _read(obj: Json) -> Check:
    active = is_true(obj.get("status") or {}, ConditionType.ACTIVE)
    return Check(str(obj["spec"].get("controllerName", "")), active)
