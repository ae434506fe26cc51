"""What runs of a job, read on its worker cluster: nothing but what is its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

import pytest

from federation.api import record as records
from federation.api.names import Annotation, Label, Mirror
from federation.edge.errors import Invalid, NotFound
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import EVENTS, JOBS, PODS, WORKLOADS, resource_of
from federation.edge.run_reader import LogOptions, Run, RunMissing, RunReader, find_run
from federation.jobs.kinds.registry import KINDS
from tests.fakes.kube_api import FakeKube

Json = dict[str, Any]
PLAIN = LogOptions()
RUN = Run("team", "train", "uid-1", "east", 2)


def client(fake: FakeKube) -> KubeClient:
    return KubeClient(Endpoint("https://fake", name="east"), transport=fake)


def give_copy(fake: FakeKube, name: str = "train", uid: str = "uid-1", attempt: int = 2) -> Json:
    notes = {Mirror.LOCAL_UID.value: uid, Mirror.ATTEMPT.value: str(attempt)}
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}}
    meta = {"name": name, "namespace": "team", "annotations": notes}
    return fake.create(JOBS, {"metadata": meta, "spec": {"template": template}})


def give_pod(
    fake: FakeKube, name: str, job: Json, *, owned: bool = True, text: bytes = b""
) -> Json:
    uid = job["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": uid, "controller": True}
    meta: Json = {"name": name, "namespace": "team",
                  "labels": {"batch.kubernetes.io/controller-uid": uid}}  # fmt: skip
    if owned:
        meta["ownerReferences"] = [owner]
    spec = {"containers": [{"name": "main", "image": "i"}]}
    made = fake.create(PODS, {"kind": "Pod", "metadata": meta, "spec": spec})
    fake.merge(PODS, name, {"status": {"phase": "Running"}}, "team", status=True)
    fake.logs["team", name, "main"] = [text]
    return made


def give_event(fake: FakeKube, about: Json, kind: str, reason: str, message: str = "") -> None:
    meta = about["metadata"]
    event = {
        "metadata": {"generateName": "e", "namespace": "team"},
        "involvedObject": {"kind": kind, "name": meta["name"], "uid": meta["uid"]},
        "reason": reason, "message": message, "lastTimestamp": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    fake.create(EVENTS, event)


@pytest.fixture
def east() -> FakeKube:
    return FakeKube(namespaces=("team",))


async def text(reader: RunReader, pod: str, options: LogOptions = PLAIN) -> bytes:
    return b"".join([chunk async for chunk in reader.log(pod, options)])


async def test_pods_and_logs(east: FakeKube) -> None:
    """Those that the copy owns, with what they said."""
    copy = give_copy(east)
    give_pod(east, "train-a", copy, text=b"one\n")
    async with client(east) as kube:
        reader = RunReader(kube, RUN)
        assert [pod["metadata"]["name"] for pod in await reader.pods()] == ["train-a"]
        assert await text(reader, "train-a", LogOptions(container="main")) == b"one\n"
        with pytest.raises(Invalid, match="not valid"):
            await text(reader, "train-a", LogOptions(container="other"))


async def test_what_is_not_its_own_is_not_read(east: FakeKube) -> None:
    """A pod of another Job, and one that only carries the label."""
    copy, other = give_copy(east), give_copy(east, "other", "uid-9")
    give_pod(east, "train-a", copy)
    give_pod(east, "forged", copy, owned=False, text=b"lies")
    give_pod(east, "other-a", other, text=b"secret")
    async with client(east) as kube:
        reader = RunReader(kube, RUN)
        assert [pod["metadata"]["name"] for pod in await reader.pods()] == ["train-a"]
        for name in ("forged", "other-a", "../../secrets", ""):
            with pytest.raises(RunMissing):
                await text(reader, name)
    assert not any("/log" in path for _, path in east.log)


@pytest.mark.parametrize("change", [{"uid": "uid-2"}, {"attempt": 1}, {"attempt": 3}])
async def test_a_copy_that_is_not_this_run(east: FakeKube, change: Json) -> None:
    """Of another job of that name, or of another attempt."""
    give_copy(east, **change)
    async with client(east) as kube:
        with pytest.raises(RunMissing, match="attempt 2 on cluster east"):
            await RunReader(kube, RUN).pods()


JOB_SET = KINDS["JobSet.v1alpha2.jobset.x-k8s.io"]
POD = KINDS["Pod.v1"]
MARKS = {Mirror.LOCAL_UID.value: "uid-1", Mirror.ATTEMPT.value: "2"}
MARKED = {Label.MULTIKUEUE_WORKER_POD.value: "true"}


def give_marked(fake: FakeKube, name: str, text: bytes = b"", **change: str) -> Json:
    """A pod that a controller has made of a copy's template, whatever owns it."""
    labels = {**MARKED, Label.MULTIKUEUE_ORIGIN.value: "o", Label.QUEUE_NAME.value: "q"}
    notes = {**MARKS, **{Mirror(key).value: value for key, value in change.items()}}
    meta: Json = {"name": name, "namespace": "team", "labels": labels, "annotations": notes}
    spec = {"containers": [{"name": "main", "image": "i"}]}
    made = fake.create(PODS, {"kind": "Pod", "metadata": meta, "spec": spec})
    fake.logs["team", name, "main"] = [text]
    return made


def give_job_set(home: FakeKube, east: FakeKube) -> None:
    """JobSet team/set, whose attempt 2 runs on east with one pod."""
    for fake in (home, east):
        fake.resources.append(resource_of(JOB_SET))
    meta = {"name": "set", "namespace": "team", "labels": {Label.QUEUE_NAME.value: "q"}}
    uid = home.create(resource_of(JOB_SET), {"metadata": meta, "spec": {}})["metadata"]["uid"]
    name = records.workload_name("JobSet", JOB_SET.group, "set", uid)
    home.create(WORKLOADS, {"metadata": {"name": name, "namespace": "team"}})
    status = {"status": {"fedq": {"cluster": "east", "attempt": 2}}}
    home.merge(WORKLOADS, name, status, "team", status=True)
    notes = {**MARKS, Mirror.LOCAL_UID.value: uid}
    east.create(resource_of(JOB_SET), {"metadata": {**meta, "annotations": notes}, "spec": {}})
    pod = give_marked(east, "set-0", b"hi\n", **{Mirror.LOCAL_UID.value: uid})
    east.merge(PODS, "set-0", {"status": {"phase": "Running"}}, "team", status=True)
    give_event(east, pod, "Pod", "BackOff", "restarting")


async def test_pods_of_other_kinds_are_known_by_their_marks(east: FakeKube) -> None:
    """Of this object and this attempt; nothing of others, of earlier ones, or without marks."""
    east.resources.append(resource_of(JOB_SET))
    copy = {"metadata": {"name": "train", "namespace": "team", "annotations": MARKS}, "spec": {}}
    made = east.create(resource_of(JOB_SET), copy)
    pod = give_marked(east, "train-w-0", b"one\n")
    give_marked(east, "old", **{Mirror.ATTEMPT.value: "1"})
    give_marked(east, "other", **{Mirror.LOCAL_UID.value: "uid-9"})
    plain = give_pod(east, "plain", give_copy(east), text=b"secret")
    give_event(east, made, "JobSet", "Started")
    give_event(east, pod, "Pod", "BackOff")
    give_event(east, plain, "Pod", "Secret")
    run = Run("team", "train", "uid-1", "east", 2, kind=JOB_SET)
    async with client(east) as kube:
        reader = RunReader(kube, run)
        assert [pod["metadata"]["name"] for pod in await reader.pods()] == ["train-w-0"]
        assert await text(reader, "train-w-0") == b"one\n"
        for name in ("old", "other", "plain"):
            with pytest.raises(RunMissing):
                await text(reader, name)
        assert {event["reason"] for event in await reader.events()} == {"Started", "BackOff"}
        with pytest.raises(RunMissing, match="JobSet team/train, attempt 3"):
            await RunReader(kube, replace(run, attempt=3)).pods()


async def test_pods_that_are_jobs(east: FakeKube) -> None:
    """Each is its own copy, and so are those of a group."""
    group = {Label.POD_GROUP_NAME.value: "g"}
    total = {Annotation.POD_GROUP_TOTAL_COUNT.value: "2"}
    for name in ("a", "b"):
        give_marked(east, name, name.encode())
        east.merge(PODS, name, {"metadata": {"labels": group, "annotations": total}}, "team")
    async with client(east) as kube:
        reader = RunReader(kube, Run("team", "a", "uid-1", "east", 2, kind=POD))
        assert [pod["metadata"]["name"] for pod in await reader.pods()] == ["a", "b"]
        assert await text(reader, "b") == b"b"


async def test_where_other_kinds_run() -> None:
    """By the name of the Workload of that kind; a group by any of its pods."""
    home = FakeKube(namespaces=("team",))
    labels = {Label.QUEUE_NAME.value: "q", Label.POD_GROUP_NAME.value: "g"}
    notes = {Annotation.POD_GROUP_TOTAL_COUNT.value: "2"}
    for name in ("b", "a"):
        meta = {"name": name, "namespace": "team", "labels": labels, "annotations": notes}
        made = home.create(PODS, {"metadata": meta, "spec": {"containers": []}})
    uid = made["metadata"]["uid"]
    name = records.workload_name("Pod", "", "a", uid)
    home.create(WORKLOADS, {"kind": "Workload", "metadata": {"name": name, "namespace": "team"}})
    status = {"status": {"fedq": {"cluster": "west", "attempt": 3}}}
    home.merge(WORKLOADS, name, status, "team", status=True)
    async with client(home) as kube:
        for given in ("a", "b", "g"):
            found = await find_run(kube, "team", given, POD)
            assert found == Run("team", "a", uid, "west", 3, kind=POD)


async def test_events(east: FakeKube) -> None:
    """Of the copy, its pods, and pods of it that are gone; of nobody else."""
    copy, other = give_copy(east), give_copy(east, "train-2", "uid-9")
    pod = give_pod(east, "train-a", copy)
    foreign = give_pod(east, "train-2-b", other)
    give_event(east, copy, "Job", "SuccessfulCreate", "Created pod: train-gone")
    give_event(east, pod, "Pod", "BackOff")
    give_event(east, {"metadata": {"name": "train-gone", "uid": "x"}}, "Pod", "Killing")
    give_event(east, foreign, "Pod", "Secret")
    give_event(east, other, "Job", "SuccessfulCreate", "Created pod: train-2-b")
    async with client(east) as kube:
        found = await RunReader(kube, RUN).events()
    assert {e["reason"] for e in found} == {"SuccessfulCreate", "BackOff", "Killing"}
    assert len(found) == 3


def give_job(home: FakeKube, fedq: Json | None, *, workload: bool = True) -> str:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "i"}]}}
    meta = {"name": "train", "namespace": "team"}
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": {"template": template},
    }
    uid = str(home.create(JOBS, body)["metadata"]["uid"])
    if workload:
        name = records.workload_name("Job", "batch", "train", uid)
        home.create(
            WORKLOADS, {"kind": "Workload", "metadata": {"name": name, "namespace": "team"}}
        )
        if fedq is not None:
            home.merge(WORKLOADS, name, {"status": {"fedq": fedq}}, "team", status=True)
    return uid


async def test_where_it_runs() -> None:
    """By its record."""
    home = FakeKube(namespaces=("team",))
    uid = give_job(home, {"cluster": "west", "attempt": 3})
    async with client(home) as kube:
        assert await find_run(kube, "team", "train") == Run("team", "train", uid, "west", 3)


@pytest.mark.parametrize(
    ("fedq", "workload", "said"),
    [
        (None, False, "no Workload"),
        (None, True, "waits in its queue"),
        ({"attempt": 2}, True, "attempt 2 has left its cluster"),
    ],
)
async def test_where_nothing_runs(fedq: Json | None, workload: bool, said: str) -> None:
    """It is said what is the case."""
    home = FakeKube(namespaces=("team",))
    give_job(home, fedq, workload=workload)
    async with client(home) as kube:
        with pytest.raises(RunMissing, match=said):
            await find_run(kube, "team", "train")
        with pytest.raises(NotFound):
            await find_run(kube, "team", "nothing")


def test_options_there_and_back() -> None:
    """As the API server spells them; what is no number is refused."""
    options = LogOptions("c", follow=True, previous=True, tail=5, since=60, timestamps=True)
    assert LogOptions.read(dict(parse_qsl(options.query()))) == options
    assert LogOptions().query() == ""
    assert LogOptions(tail=0).query() == "tailLines=0"
    for bad in ("-1", "x", "1e3", "9" * 20):
        with pytest.raises(Invalid):
            LogOptions.read({"tailLines": bad})
