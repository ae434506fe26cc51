"""What runs of a job on its worker cluster, read there: pods, logs, events.

A person names a job of the management cluster. Whose the copy is, is proved by the UID that stands
on it. Pods of a batch/v1 Job are those that it owns; between objects of other kinds and their pods
there may be objects of all sorts, so that theirs are those that carry the marks which the mirror
has put into the copy's pod templates: UID and attempt. Nothing else of that namespace is ever read.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from federation.api import record as records
from federation.api.names import PODS_OF_COPIES, Label, Mirror
from federation.core.facts import BATCH_JOB
from federation.edge.errors import Invalid, NotFound
from federation.edge.kind_objects import named, objects
from federation.edge.kube import KubeClient
from federation.edge.resources import EVENTS, PODS, WORKLOADS, Json
from federation.jobs.kinds.batch import BatchJob
from federation.jobs.kinds.kind import JobKind
from federation.jobs.mirror import mirrored_attempt

JOB: Final[JobKind] = BatchJob()
_JOB_UID = "batch.kubernetes.io/controller-uid"
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
"""Annotation of a pod: whose log is meant where no container is named."""
MOST_EVENTS = 500


@dataclass(frozen=True, slots=True)
class Run:
    """Where a job runs, or ran last: the UID is that of the object on the management cluster."""

    namespace: str
    name: str
    uid: str
    cluster: str
    attempt: int
    ended: bool = False
    kind: JobKind = JOB

    def __str__(self) -> str:
        what = "" if self.kind.name == BATCH_JOB else f"{self.kind.kind} "
        where = f"attempt {self.attempt} on cluster {self.cluster}"
        return f"{what}{self.namespace}/{self.name}, {where}"


class RunMissing(Exception):
    """There is nothing to read: the job waits, or its copy is gone. The text says which."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """As `kubectl logs` has them. `tail` is a number of lines, `since` of seconds."""

    container: str = ""
    follow: bool = False
    previous: bool = False
    tail: int | None = None
    since: int | None = None
    timestamps: bool = False

    def query(self) -> str:
        """As the API server spells them."""
        flags = {"follow": self.follow, "previous": self.previous, "timestamps": self.timestamps}
        numbers = {"tailLines": self.tail, "sinceSeconds": self.since}
        given = {"container": self.container} if self.container else {}
        given |= {key: "true" for key, on in flags.items() if on}
        given |= {key: str(number) for key, number in numbers.items() if number is not None}
        return urlencode(given)

    @classmethod
    def read(cls, query: Mapping[str, str]) -> LogOptions:
        """From a query of that spelling. Raises Invalid."""
        return cls(
            query.get("container", ""),
            query.get("follow") == "true",
            query.get("previous") == "true",
            _number(query, "tailLines"),
            _number(query, "sinceSeconds"),
            query.get("timestamps") == "true",
        )


def _number(query: Mapping[str, str], key: str) -> int | None:
    text = query.get(key, "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise Invalid(f"{key} is {text[:40]!r}: it takes a whole number", reason="BadRequest")
    return int(text)


async def find_run(client: KubeClient, namespace: str, name: str, kind: JobKind = JOB) -> Run:
    """Where a job of the management cluster runs. Raises NotFound without such an object,
    RunMissing if it is bound to no cluster.
    """
    job = await named(client, kind, name, namespace)
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    if (job["metadata"].get("labels") or {}).get(Label.LOCAL.value) == "true":
        raise RunMissing(
            f"{name} runs on the management cluster itself (label {Label.LOCAL}): read there with"
            " `kubectl logs` and `kubectl get events`"
        )
    workload = records.workload_name(kind.kind, kind.group, name, uid)
    about = f"{kind.kind.lower()} {namespace}/{name}"
    try:
        record = records.read_record(await client.get(WORKLOADS, workload, namespace))
    except NotFound:
        raise RunMissing(
            f"{about} has no Workload (any more), so nothing is known of a run"
        ) from None
    bound = record.binding
    if bound is None:
        before = f"; attempt {record.attempt} has left its cluster" if record.attempt else ""
        raise RunMissing(f"{about} waits in its queue, no pod of it runs{before}")
    return Run(namespace, name, uid, bound.cluster, bound.attempt, record.finished, kind)


class RunReader:
    """Reads one run on its worker cluster; `client` is of that cluster."""

    def __init__(self, client: KubeClient, run: Run) -> None:
        self._client, self.run = client, run

    async def copy(self) -> Json:
        """The copy there. Raises RunMissing if it is not, or is not this run's."""
        run = self.run
        try:
            job = await objects(self._client, run.kind).get(run.name, run.namespace)
        except NotFound:
            raise RunMissing(_gone(run)) from None
        notes = job["metadata"].get("annotations") or {}
        same = notes.get(Mirror.LOCAL_UID.value) == run.uid
        if not same or mirrored_attempt(job) != run.attempt:
            raise RunMissing(_gone(run))
        return job

    async def pods(self) -> list[Json]:
        """Its pods, the oldest first."""
        return await self._pods_of(await self.copy())

    async def _pods_of(self, copy: Json) -> list[Json]:
        uid, run = copy["metadata"]["uid"], self.run
        of_job = run.kind.name == BATCH_JOB
        selector = f"{_JOB_UID}={uid}" if of_job else PODS_OF_COPIES
        found = (await self._client.list(PODS, run.namespace, label_selector=selector)).items
        mine = [pod for pod in found if (_owned_by(pod, uid) if of_job else _marked(pod, run))]
        return sorted(mine, key=_age)

    async def log(self, pod: str, options: LogOptions) -> AsyncGenerator[bytes, None]:
        """The log of a container of one of its pods, as it comes. Raises RunMissing for others."""
        if all(found["metadata"]["name"] != pod for found in await self.pods()):
            raise RunMissing(f"{self.run} has no pod {pod[:253]}")
        space, name = quote(self.run.namespace, safe=""), quote(pod, safe="")
        path = f"{PODS.prefix}/namespaces/{space}/pods/{name}/log"
        async with aclosing(self._client.stream(f"{path}?{options.query()}".rstrip("?"))) as chunks:
            async for chunk in chunks:
                yield chunk

    async def events(self) -> list[Json]:
        """Events of the copy and of its pods, the oldest first: the newest 500."""
        copy = await self.copy()
        uid = copy["metadata"]["uid"]
        ours = {uid, *(pod["metadata"]["uid"] for pod in await self._pods_of(copy))}
        found = (await self._client.list(EVENTS, self.run.namespace)).items
        told = [event for event in found if _about(event).get("uid") == uid]
        made = set(filter(None, map(_made, told)))
        about = [
            event for event in found if _about(event).get("uid") in ours or _pod(event) in made
        ]
        return sorted(about, key=event_time)[-MOST_EVENTS:]


def _about(event: Json) -> Json:
    return event.get("involvedObject") or {}


def _pod(event: Json) -> str:
    about = _about(event)
    return str(about.get("name")) if about.get("kind") == "Pod" else ""


def _made(event: Json) -> str:
    """The pod that the Job controller says it has made: it may be gone since."""
    _, told, name = str(event.get("message") or "").partition("Created pod: ")
    return name.strip() if told and event.get("reason") == "SuccessfulCreate" else ""


def event_time(event: Json) -> str:
    """When it was last seen (RFC 3339)."""
    series = event.get("series") or {}
    times = (
        series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"),
        event["metadata"].get("creationTimestamp"),
    )  # fmt: skip
    return next((str(time) for time in times if time), "")


def _gone(run: Run) -> str:
    if run.ended:
        return (
            f"the pods of {run} are removed since: it has ended, and was kept there as long as"
            " FEDQ_KEEP_FINISHED_S of the manager says"
        )
    return f"{run}: its copy is not there (yet, or any more): `fedq why` says where it stands"


def _owned_by(pod: Json, uid: str) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == uid and owner.get("controller") for owner in owners)


def _marked(pod: Json, run: Run) -> bool:
    """Whether it carries the marks of this attempt, as its template did."""
    notes = pod["metadata"].get("annotations") or {}
    return notes.get(Mirror.LOCAL_UID.value) == run.uid and mirrored_attempt(pod) == run.attempt


def _age(pod: Json) -> tuple[str, str]:
    return pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"]


def container_names(pod: Json) -> list[str]:
    """Names of its containers, those that initialise it first."""
    spec: Mapping[str, Any] = pod.get("spec") or {}
    kinds = ("initContainers", "containers")
    return [str(c["name"]) for kind in kinds for c in spec.get(kind) or ()]
