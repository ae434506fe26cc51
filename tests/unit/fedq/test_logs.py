"""`fedq logs` and `fedq events`: directly for who may see the kubeconfig, else by the manager."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest

from federation.edge import resources as r
from federation.edge.errors import Forbidden, Unreachable
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.run_reader import LogOptions, Run
from federation.jobs.kinds.registry import KINDS
from fedq import connect, runs
from fedq import logs as fedq_logs
from fedq.commands import logs as commands_logs
from manager.reading_api import Reading
from tests.fakes.kube_api import FakeKube
from tests.unit.edge.test_run_reader import (
    JOB_SET,
    give_copy,
    give_event,
    give_job,
    give_job_set,
    give_pod,
)
from tests.unit.fedq.conftest import Fedq
from tests.unit.manager.test_reading_api import Place

Json = dict[str, Any]
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: k, cluster: {server: "https://east"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: k, user: u}}]
"""


@pytest.fixture
def east(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> FakeKube:
    """Worker cluster east, whose kubeconfig is in a Secret, with attempt 2 of train."""
    fake = FakeKube(namespaces=("team",))
    uid = give_job(kube, {"cluster": "east", "attempt": 2})
    source = {"clusterSource": {"kubeConfig": {"location": "s", "locationType": "Secret"}}}
    body: Json = {"kind": "MultiKueueCluster", "metadata": {"name": "east"}, "spec": source}
    kube.create(r.MULTIKUEUE_CLUSTERS, {"apiVersion": "kueue.x-k8s.io/v1beta2", **body})
    text = base64.b64encode(KUBECONFIG.encode()).decode()
    meta = {"name": "s", "namespace": "fedq-system"}
    kube.create(r.SECRETS, {"metadata": meta, "data": {"kubeconfig": text}})
    fake.copy = give_copy(fake, uid=uid)  # type: ignore[attr-defined]
    monkeypatch.setattr(runs, "open_worker", lambda endpoint: KubeClient(endpoint, transport=fake))
    return fake


def pods(east: FakeKube, **texts: bytes) -> None:
    for name, text in texts.items():
        give_pod(east, f"train-{name}", east.copy, text=text)  # type: ignore[attr-defined]


def test_one_pod(fedq: Fedq, east: FakeKube) -> None:
    """Its lines as they are; where it runs is told apart."""
    pods(east, a=b"one\n\ntwo")
    found = fedq("logs", "train", "-n", "team")
    assert found.stdout == "one\n\ntwo\n"
    assert found.stderr.strip() == "team/train, attempt 2 on cluster east"


def test_a_gang(fedq: Fedq, east: FakeKube) -> None:
    """Each line says whose it is; --pod and --tail choose."""
    pods(east, a=b"one\n", b=b"two\n")
    found = fedq("logs", "train", "-n", "team", "--tail", "9")
    assert found.stdout == "[train-a/main] one\n[train-b/main] two\n"
    assert fedq("logs", "train", "-n", "team", "--pod", "train-b").stdout == "two\n"
    assert any("tailLines=9" in path for _, path in east.log)


def test_followed_until_it_has_ended(fedq: Fedq, east: FakeKube) -> None:
    """All that is said, then the end."""
    pods(east, a=b"one\n", b=b"two\n")
    for name in ("train-a", "train-b"):
        east.merge(r.PODS, name, {"status": {"phase": "Succeeded"}}, "team", status=True)
    found = fedq("logs", "train", "-n", "team", "-f")
    assert sorted(found.stdout.splitlines()) == ["[train-a/main] one", "[train-b/main] two"]


def test_a_pod_that_has_not_started(fedq: Fedq, east: FakeKube) -> None:
    """It is said why, without what a terminal would obey."""
    pods(east, a=b"")
    gate = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/3 nodes\x1b[31m"}  # fmt: skip
    status = {"phase": "Pending", "conditions": [gate]}
    east.merge(r.PODS, "train-a", {"status": status}, "team", status=True)
    found = fedq("logs", "train", "-n", "team")
    assert "pod train-a has not started: Pending: Unschedulable: 0/3 nodes[31m" in found.stderr
    assert found.stdout == ""


def test_options(fedq: Fedq, east: FakeKube) -> None:
    """As kubectl has them."""
    pods(east, a=b"x\n")
    fedq("logs", "train", "-n", "team", "-p", "-c", "main", "--since", "5m", "--timestamps")
    (path,) = (path for _, path in east.log if "/log?" in path)
    for part in ("container=main", "previous=true", "sinceSeconds=300", "timestamps=true"):
        assert part in path
    bad = fedq("logs", "train", "-n", "team", "--since", "soon")
    assert bad.exit_code == 2
    assert "no time" in bad.stderr


def test_nothing_to_read(fedq: Fedq, east: FakeKube) -> None:
    """No pods, another attempt there, no job: what is the case, and no traceback."""
    assert "there are no pods of it" in fedq("logs", "train", "-n", "team").stderr
    east.delete(r.JOBS, "train", "team")
    gone = fedq("logs", "train", "-n", "team")
    assert gone.exit_code == 1
    assert "its copy is not there" in gone.stderr
    assert fedq("events", "nothing", "-n", "team").exit_code == 1


async def test_a_line_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not held until the memory is full."""
    monkeypatch.setattr(fedq_logs, "LONGEST_LINE", 4)

    async def chunks() -> AsyncGenerator[bytes, None]:
        for chunk in (b"ab", b"cd", b"ef\n", b"\nxy", b"\n", b"z"):
            yield chunk

    found = [line async for line in fedq_logs._lines(chunks())]
    assert found == [b"abcd", b"ef", b"", b"xy", b"z"]


class Breaking:
    """A run whose logs break off once; its pod runs until all is told, for 20 looks at most."""

    run = Run("team", "train", "uid-1", "east", 2)

    def __init__(self, first: Exception | None) -> None:
        self._first, self.asked = first, list[LogOptions]()
        self.done, self.looks = False, 0

    async def pods(self) -> list[Json]:
        self.looks += 1
        self.done = self.done or self.looks > 20
        state: Json = {"terminated": {}} if self.done else {"running": {}}
        status = {"phase": "Succeeded" if self.done else "Running",
                  "containerStatuses": [{"name": "main", "state": state}]}  # fmt: skip
        spec = {"containers": [{"name": "main"}]}
        return [{"metadata": {"name": "train-a"}, "spec": spec, "status": status}]

    async def events(self) -> list[Json]:
        return []

    async def log(self, pod: str, options: LogOptions) -> AsyncGenerator[bytes, None]:
        self.asked.append(options)
        if len(self.asked) == 1:
            yield b"one\n"
            if self._first is not None:
                raise self._first
            return
        yield b"two\n"
        self.done = True


@pytest.mark.parametrize("first", [None, Unreachable("gone")])
async def test_a_log_that_breaks_off_is_followed_on(
    first: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manager or the API server starts anew while the pod runs: what it says then is told."""
    monkeypatch.setattr(fedq_logs, "LOOK_S", 0.001)
    reader, lines, remarks = Breaking(first), list[bytes](), list[str]()
    wanted = fedq_logs.Wanted(options=LogOptions(follow=True, tail=5))
    async with asyncio.timeout(10):
        await fedq_logs.tell_logs(reader, wanted, fedq_logs.Telling(lines.append, remarks.append))
    assert lines == [b"one", b"two"]
    assert [(o.tail, o.since) for o in reader.asked] == [(5, None), (None, 2)]
    assert any("broke off" in remark for remark in remarks)


async def test_a_log_that_may_not_be_read_is_asked_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long its pod runs."""
    monkeypatch.setattr(fedq_logs, "LOOK_S", 0.001)
    reader, lines, remarks = Breaking(Forbidden("no")), list[bytes](), list[str]()
    telling = fedq_logs.Telling(lines.append, remarks.append)
    wanted = fedq_logs.Wanted(options=LogOptions(follow=True))
    async with asyncio.timeout(10):
        await fedq_logs.tell_logs(reader, wanted, telling)
    assert reader.looks > 20
    assert len(reader.asked) == 1


def test_a_terminal_is_not_steered(
    fedq: Fedq, east: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what a pod writes; a file gets it as it is."""
    pods(east, a=b"\x1b]0;title\x07one\rtwo \x1b[31mred\r\n")
    assert fedq("logs", "train", "-n", "team").stdout_bytes.startswith(b"\x1b]0;title\x07one\r")
    monkeypatch.setattr(commands_logs, "_is_terminal", lambda: True)
    found = fedq("logs", "train", "-n", "team")
    assert found.stdout == "␛]0;title␇one␍two \x1b[31mred\x1b[0m\n"


def test_events(fedq: Fedq, east: FakeKube) -> None:
    """As a table, and as JSON; messages are one line."""
    pods(east, a=b"")
    pod = east.get(r.PODS, "train-a", "team")
    give_event(east, pod, "Pod", "BackOff", "restarting\n\x1b[2Jfailed container")
    found = fedq("events", "train", "-n", "team")
    assert "BackOff   pod/train-a   1       restarting [2Jfailed container" in found.stdout
    (event,) = json.loads(fedq("events", "train", "-n", "team", "-o", "json").stdout)
    assert (event["reason"], event["object"]) == ("BackOff", "pod/train-a")


def test_who_may_not_see_the_kubeconfig(fedq: Fedq, kube: FakeKube, east: FakeKube) -> None:
    """The manager is named as the way."""
    kube.fail(lambda request: "/secrets/" in request.url.path, status=403, times=9)
    found = fedq("logs", "train", "-n", "team")
    assert found.exit_code == 1
    assert "--manager" in found.stderr
    assert east.log == []


@pytest.mark.parametrize("name", ["jobset/set", "set"])
def test_another_kind(fedq: Fedq, kube: FakeKube, east: FakeKube, name: str) -> None:
    """As of a Job."""
    give_job_set(kube, east)
    kube.discovery = True
    found = fedq("logs", name, "-n", "team")
    assert found.stdout == "hi\n"
    assert found.stderr.strip() == "JobSet team/set, attempt 2 on cluster east"
    assert "pod/set-0" in fedq("events", name, "-n", "team").stdout


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    """The manager's pages instead of the worker."""
    place = Place()
    reading = Reading(place.leader, place.connect)

    def through(endpoint: Endpoint) -> KubeClient:
        assert endpoint.token == "good"
        return KubeClient(endpoint, transport=httpx.ASGITransport(reading.app()))

    monkeypatch.setattr(runs, "open_worker", through)
    return place


def test_through_the_manager(fedq: Fedq, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the token of the kubeconfig; without one, or to where others listen, it is not sent."""
    url = ("--manager", "https://manager:8443")
    assert "none" in fedq("logs", "train", "-n", "team", *url).stderr
    target = connect.Target(Endpoint("https://fake", name="fake", token="good"))
    monkeypatch.setattr(connect, "choose", lambda kubeconfig, context: target)
    found = fedq("logs", "train", "-n", "team", *url)
    assert found.stdout == "hello\n"
    assert "team/train, attempt 2 on cluster east" in found.stderr
    for bad in ("http://manager:8443", "http://localhost:1@evil.example"):
        refused = fedq("logs", "train", "-n", "team", "--manager", bad)
        assert "in the clear" in refused.stderr
    place.may = set()
    assert "user ann may not get" in fedq("logs", "train", "-n", "team", *url).stderr


@pytest.mark.parametrize("name", ["jobset/set", "set"])
def test_another_kind_through_the_manager(
    fedq: Fedq, kube: FakeKube, place: Place, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """By the name of the kind that the manager knows; of several it is asked which."""
    give_job_set(place.home, place.east)
    kube.discovery = True
    given = [JOB_SET, KINDS["RayJob.v1.ray.io"]]
    kube.resources += map(r.resource_of, given)
    meta = {"name": "set", "namespace": "team"}
    kube.create(r.resource_of(given[0]), {"metadata": meta, "spec": {}})
    target = connect.Target(Endpoint("https://fake", name="fake", token="good"))
    monkeypatch.setattr(connect, "choose", lambda kubeconfig, context: target)
    ask = ("logs", name, "-n", "team", "--manager", "https://manager:8443")
    found = fedq(*ask)
    assert found.stdout == "hi\n", found.output
    assert "JobSet team/set, attempt 2 on cluster east" in found.stderr
    kube.create(r.resource_of(given[1]), {"metadata": meta, "spec": {}})
    assert fedq(*ask).exit_code == (2 if name == "set" else 0)
