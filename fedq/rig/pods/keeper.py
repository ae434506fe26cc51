"""One pod and its process: what a kubelet does from the start of a pod to its removal."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from federation.edge.errors import ApiError, Conflict, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import PODS
from federation.edge.retry import backoff
from fedq.rig.pods import status
from fedq.rig.pods.handle import KILLED, Handle
from fedq.rig.pods.hook import refusal
from fedq.rig.pods.plan import DEFAULT_GRACE, grace_of, plan_of

Json = dict[str, Any]
log = structlog.get_logger(__name__)

NOT_STARTED = 128
"""Exit code that a kubelet tells of a container that could not be started."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a runner works: the cluster, the folder of its histories, the mark of its processes.
    `hook` is the command that is asked before a container starts, if there is one.
    """

    client: KubeClient
    cluster: str
    folder: Path
    mark: str
    hook: tuple[str, ...] = ()

    def file(self, uid: str) -> Path:
        """The history of a pod."""
        return self.folder / f"{uid}.jsonl"


class Keeper:
    """Runs the process of one pod. The process does not wait for the API server, ever."""

    def __init__(self, place: Place, pod: Json) -> None:
        self._place, self._pod = place, pod
        self._plan = plan_of(pod, place.cluster)
        self._leaving = asyncio.Event()
        self._refused = ""
        self._random = random.Random(self._plan.uid)
        self.seen(pod)

    def seen(self, pod: Json) -> None:
        """The pod as it is now."""
        self._pod = pod
        if pod["metadata"].get("deletionTimestamp"):
            self._leaving.set()

    def removed(self) -> None:
        """The pod is no more: somebody deleted it without waiting."""
        self._leaving.set()

    async def run(self) -> None:
        """From start to removal."""
        code = await self._process()
        await self._write(lambda pod, moment: status.ended(pod, code, moment, self._refused))
        await self._leaving.wait()
        await self._persist(self._delete)

    async def _process(self) -> int:
        """Run the process to its end; its exit code. One that is there already is taken over."""
        file = self._place.file(self._plan.uid)
        handle = Handle.find(file)
        if handle is None:
            if self._leaving.is_set() or _over(self._pod):
                return KILLED
            if hook := self._place.hook:
                self._refused = await refusal(hook, self._plan)
            if self._refused:
                log.info("pod.refused", pod=self._plan.name, why=self._refused)
                return NOT_STARTED
            handle = await Handle.start(self._plan, file, self._place.mark)
            log.info("pod.started", pod=self._plan.name, pid=handle.pid)
        running = asyncio.create_task(self._write(status.running))
        try:
            await self._ended(handle)
            # Of two that were started, by a runner that died before it knew, one gives up.
            if (owner := Handle.find(file)) is not None and owner != handle:
                handle = owner
                await self._ended(handle)
        finally:
            running.cancel()
        code = handle.exit_code()
        log.info("pod.ended", pod=self._plan.name, code=code)
        return code

    async def _ended(self, handle: Handle) -> None:
        """Wait until it ends, by itself or because the pod leaves."""
        end = asyncio.create_task(handle.gone())
        leave = asyncio.create_task(self._leaving.wait())
        try:
            await asyncio.wait({end, leave}, return_when=asyncio.FIRST_COMPLETED)
            if not end.done():
                await stop(handle, grace_of(self._pod), end)
        finally:
            leave.cancel()
            end.cancel()

    async def _write(self, make: Callable[[Json, str], Json]) -> None:
        """Tell a status, made of the pod and the time."""
        meta, moment = self._pod["metadata"], _moment()

        async def write() -> None:
            patch = {"metadata": {"uid": meta["uid"]}, "status": make(self._pod, moment)}
            await self._place.client.patch(
                PODS, meta["name"], patch, meta["namespace"], subresource="status"
            )

        await self._persist(write)

    async def _delete(self) -> None:
        """The object goes when the process has gone. It was being deleted, so no other has its
        name.
        """
        meta = self._pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}?gracePeriodSeconds=0"
        await self._place.client.raw("DELETE", path)

    async def _persist(self, call: Callable[[], Any]) -> None:
        """Call until it succeeds or the pod is no more, as a kubelet does."""
        failures = 0
        while True:
            try:
                await call()
                return
            except (NotFound, Conflict):
                return
            except ApiError as error:
                failures += 1
                log.warning("pod.unreported", pod=self._plan.name, why=str(error))
                await asyncio.sleep(backoff(failures, self._random, error))  # nobody tells


async def stop(handle: Handle, grace: float, end: asyncio.Task[None]) -> None:
    """SIGTERM, and SIGKILL after `grace` seconds; returns when it has ended."""
    handle.terminate()
    if not (await asyncio.wait({end}, timeout=grace))[0]:
        handle.kill()
    await end


async def end_orphan(handle: Handle) -> None:
    """End a process whose pod was removed while no runner was there."""
    await stop(handle, DEFAULT_GRACE, asyncio.create_task(handle.gone()))
    handle.exit_code()


def _over(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _moment() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
