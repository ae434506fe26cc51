"""Logs of all pods of a run side by side, line by line, as they come."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from federation.edge.errors import ApiError
from federation.edge.run_reader import (
    DEFAULT_CONTAINER,
    LogOptions,
    RunMissing,
    container_names,
)
from federation.jobs.pod_text import clean, pod_state
from fedq.runs import Reader

Json = dict[str, Any]

LOOK_S = 1.0
"""While logs are followed: how often new pods are looked for."""
BROKEN_LOOKS = 3
"""For so many looks a container has to run after its log was closed: what ends is told as ended
within that time.
"""
LONGEST_NAME = 253
LONGEST_LINE = 1 << 20
"""Bytes; what is longer comes in pieces of about this: a log need not have any line ends."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which logs: of one pod or all (''), of one container or the first of each (''), of all."""

    pod: str = ""
    all_containers: bool = False
    options: LogOptions = field(default_factory=LogOptions)


@dataclass(slots=True)
class Telling:
    """Where lines and remarks go, and what has been told."""

    line: Callable[[bytes], None]
    remark: Callable[[str], None]
    count: int = 0
    remarks: set[str] = field(default_factory=set)

    def once(self, text: str) -> None:
        """A remark, unless it was made."""
        if text not in self.remarks:
            self.remarks.add(text)
            self.remark(text)


async def tell_logs(reader: Reader, wanted: Wanted, telling: Telling) -> None:
    """Tell them all; when they are followed, until the run has ended. Raises RunMissing if there is
    nothing to read from the start.
    """
    pods = _chosen(await reader.pods(), wanted)
    telling.once(str(reader.run))
    if not wanted.options.follow:
        many = len(_sources(pods, wanted, telling)) > 1
        for pod, container in _sources(pods, wanted, telling):
            await _tell(reader, pod, container, wanted, telling, many=many)
        return
    await _follow(reader, wanted, telling)


def _chosen(pods: list[Json], wanted: Wanted) -> list[Json]:
    found = [pod for pod in pods if wanted.pod in ("", pod["metadata"]["name"])]
    if not found:
        there = ", ".join(pod["metadata"]["name"] for pod in pods[:10]) or "none (yet)"
        what = f"there is no pod {wanted.pod}" if wanted.pod else "there are no pods"
        raise RunMissing(f"{what} of it; pods there: {there}")
    return found


Source = tuple[str, str]
"""A pod and a container."""


def _sources(pods: list[Json], wanted: Wanted, telling: Telling) -> list[Source]:
    """What can be read now; of pods that have not started is said why."""
    found: list[Source] = []
    for pod in pods:
        name, state = pod["metadata"]["name"], pod_state(pod)
        names = container_names(pod) if wanted.all_containers else [_container(pod, wanted)]
        started = [container for container in names if _started(pod, container)]
        found += [(name, container) for container in started]
        if not started:
            why = f": {state.reason}: {state.message}".rstrip(": ") if state.reason else ""
            telling.once(f"pod {name} has not started: {state.phase}{why}")
    return found


def _container(pod: Json, wanted: Wanted) -> str:
    if wanted.options.container:
        return wanted.options.container
    notes = pod["metadata"].get("annotations") or {}
    main = [str(c["name"]) for c in pod["spec"].get("containers") or ()]
    default = notes.get(DEFAULT_CONTAINER, "")
    return default if default in main else next(iter(main), "")


def _started(pod: Json, container: str) -> bool:
    """Whether a container has, or had, something to say. Of one that is not known the server says
    what it thinks of it.
    """
    status = pod.get("status") or {}
    kinds = ("initContainerStatuses", "containerStatuses")
    for found in (entry for kind in kinds for entry in status.get(kind) or ()):
        if found.get("name") == container:
            running = (found.get("state") or {}).keys() & {"running", "terminated"}
            return bool(running or found.get("lastState"))
    return (status.get("phase") or "Pending") != "Pending"


@dataclass(slots=True)
class _Stream:
    """A log that is followed: when (by the loop's clock) it said something last, whether it may be
    opened again, and for how many looks it has been closed although its container runs.
    """

    task: asyncio.Task[None] | None = None
    heard: float = 0.0
    final: bool = False
    looks: int = 0

    def broken(self, *, running: bool) -> bool:
        """Whether it broke off: an end that is followed by that of its container is none."""
        closed = self.task is not None and self.task.done() and not self.final
        self.looks = self.looks + 1 if closed and running else 0
        return self.looks >= BROKEN_LOOKS


async def _follow(reader: Reader, wanted: Wanted, telling: Telling) -> None:
    """Also pods that come later, until the run has ended or its copy is gone."""
    streams: dict[Source, _Stream] = {}
    async with asyncio.TaskGroup() as tasks:
        while True:
            try:
                pods = await reader.pods()
            except RunMissing as missing:
                telling.once(str(missing))
                return
            except ApiError as error:
                telling.once(str(error))
                if not error.retryable:
                    return
                await asyncio.sleep(LOOK_S)  # the server is away: nothing tells when it is back
                continue
            mine = {p["metadata"]["name"]: p for p in pods if _meant(p, wanted)}
            sources = _sources(list(mine.values()), wanted, telling)
            many = len(pods) > 1 or len(sources) > 1
            for source in sources:
                stream = streams.setdefault(source, _Stream())
                running = _running(mine[source[0]], source[1])
                again = stream.broken(running=running)
                if again or stream.task is None:
                    ask = _rest_of(wanted, stream, source, telling) if again else wanted
                    work = _tell(reader, *source, ask, telling, many=many, stream=stream)
                    stream.looks, stream.task = 0, tasks.create_task(work)
            begun = [stream.task for stream in streams.values() if stream.task is not None]
            open_ = [task for task in begun if not task.done()]
            if not open_ and mine and all(map(_over, mine.values())):
                return
            if open_:
                await asyncio.wait(open_, timeout=LOOK_S)
            else:
                await asyncio.sleep(LOOK_S)  # pods that are yet to come


def _meant(pod: Json, wanted: Wanted) -> bool:
    return wanted.pod in ("", pod["metadata"]["name"])


def _rest_of(wanted: Wanted, stream: _Stream, source: Source, telling: Telling) -> Wanted:
    """What has been said since a log broke off, to the second."""
    pod, container = source
    telling.once(
        f"the log of pod {pod}, container {container}, broke off: it goes on, and some of its lines"
        " may be told twice"
    )
    since = math.ceil(asyncio.get_running_loop().time() - stream.heard) + 1
    return replace(wanted, options=replace(wanted.options, tail=None, since=since))


def _running(pod: Json, container: str) -> bool:
    status = pod.get("status") or {}
    kinds = ("initContainerStatuses", "containerStatuses")
    found = (entry for kind in kinds for entry in status.get(kind) or ())
    return any(c.get("name") == container and "running" in (c.get("state") or {}) for c in found)


def _over(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


async def _tell(
    reader: Reader, pod: str, container: str, wanted: Wanted, telling: Telling,
    *, many: bool, stream: _Stream | None = None,
) -> None:  # fmt: skip
    prefix = f"[{clean(pod, LONGEST_NAME)}/{clean(container, LONGEST_NAME)}] " if many else ""
    options = replace(wanted.options, container=container)
    stream, clock = stream or _Stream(), asyncio.get_running_loop().time
    stream.heard, stream.final = clock(), options.previous
    try:
        async with aclosing(_lines(reader.log(pod, options))) as found:
            async for line in found:
                stream.heard = clock()
                telling.count += 1
                telling.line(prefix.encode() + line)
    except (ApiError, RunMissing) as error:
        stream.final = stream.final or not getattr(error, "retryable", False)
        telling.once(f"pod {pod}, container {container}: {error}")


async def _lines(chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Whole lines; unlike those of a watch, empty ones too. Each byte is looked at once."""
    parts: list[bytes] = []
    length = 0
    async with aclosing(chunks):
        async for chunk in chunks:
            first, *rest = chunk.split(b"\n")
            parts.append(first)
            length += len(first)
            for piece in rest:
                yield b"".join(parts)
                parts, length = [piece], len(piece)
            if length >= LONGEST_LINE:
                yield b"".join(parts)
                parts, length = [], 0
    if length:
        yield b"".join(parts)
