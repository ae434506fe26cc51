"""`python -m fedq.rig.podrunner CLUSTER KUBECONFIG HISTORY [HOOK …]`: processes for pods.

Unlike the rest of the rig it uses the product's client: it is started on a rig that is up, for
drills. What a drill is judged by is written by the processes, see `fedq.drill.records`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import structlog

from federation.edge.informer import Calls, Informer, Select
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import load_endpoint
from federation.edge.resources import PODS
from federation.edge.services import run_program, vital
from federation.edge.telemetry import configure_logging
from fedq.rig.pods.handle import Handle
from fedq.rig.pods.keeper import Keeper, Place, end_orphan
from fedq.rig.pods.plan import PROCESS, handled, pods_mark
from fedq.rig.process import MARK

Json = dict[str, Any]
log = structlog.get_logger(__name__)


class Runner:
    """Has a `Keeper` for each pod that is its own to handle."""

    def __init__(self, place: Place, tasks: asyncio.TaskGroup) -> None:
        self._place, self._tasks = place, tasks
        self._keepers: dict[str, Keeper] = {}
        self._orphans_ended = False

    def handler(self) -> Calls:
        """What its informer calls."""
        return Calls(self._listed, self._seen, self._gone)

    def _listed(self, pods: Sequence[Json], version: str) -> None:
        present = {pod["metadata"]["uid"] for pod in pods}
        for uid in self._keepers.keys() - present:
            self._keepers[uid].removed()
        for pod in pods:
            self._seen(pod)
        if not self._orphans_ended:
            self._orphans_ended = True
            for file in self._place.folder.glob("*.jsonl"):
                handle = Handle.find(file)
                if file.stem not in present and handle is not None and handle.alive:
                    log.warning("pod.orphan", pod=file.stem, pid=handle.pid)
                    self._tasks.create_task(end_orphan(handle))

    def _seen(self, pod: Json) -> None:
        uid = pod["metadata"]["uid"]
        if (keeper := self._keepers.get(uid)) is not None:
            keeper.seen(pod)
        elif handled(pod):
            self._keepers[uid] = Keeper(self._place, pod)
            self._tasks.create_task(self._keep(uid))

    async def _keep(self, uid: str) -> None:
        await self._keepers[uid].run()
        del self._keepers[uid]

    def _gone(self, pod: Json) -> None:
        if (keeper := self._keepers.get(pod["metadata"]["uid"])) is not None:
            keeper.removed()


async def run(place: Place) -> None:
    """Handle the pods of one cluster until cancelled. The processes go on without it."""
    async with asyncio.TaskGroup() as tasks:
        runner = Runner(place, tasks)
        select = Select(label_selector=f"{PROCESS}=true", field_selector="spec.nodeName!=")
        informer = Informer(place.client, PODS, runner.handler(), select=select)
        tasks.create_task(vital(informer.run(), "pods"))


async def _main(cluster: str, kubeconfig: Path, history: Path, hook: Sequence[str]) -> None:
    folder = history / cluster
    folder.mkdir(parents=True, exist_ok=True)
    # One descriptor for each process.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    async with KubeClient(load_endpoint(kubeconfig), user_agent="fedq-podrunner") as client:
        home = os.environ.get(MARK, "").rpartition(":")[0]
        place = Place(client, cluster, folder, pods_mark(home, cluster), tuple(hook))
        task = asyncio.create_task(run(place))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        await task


def main() -> int:
    """Exit code 0 after a signal, 1 when it cannot go on."""
    parser = argparse.ArgumentParser(prog="podrunner", description="Real processes for pods.")
    parser.add_argument("cluster", help="name of the worker cluster")
    parser.add_argument("kubeconfig", type=Path, help="of somebody who may change all pods there")
    parser.add_argument("history", type=Path, help="folder for what the processes write")
    parser.add_argument("hook", nargs="*", help="command that is asked before a container starts")
    arguments = parser.parse_args()
    configure_logging("info")
    main = _main(arguments.cluster, arguments.kubeconfig, arguments.history, arguments.hook)
    return run_program(main, "podrunner")


if __name__ == "__main__":
    sys.exit(main())
