"""Where a command reads what runs of a job: on the worker cluster itself, or through the manager.

Who may read the kubeconfig of the cluster may do all of it there anyway, and reads directly. Anyone
else asks the manager, with a token of the management cluster: it reads for those who may `get
pods/log`, or `events`, in the Job's namespace there.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from pydantic_core import from_json

from federation.api.multikueue import MultiKueueCluster
from federation.api.names import FEDQ_NAMESPACE, KUBECONFIG_KEY, KUEUE_NAMESPACE
from federation.core.facts import BATCH_JOB
from federation.edge.errors import ApiError, Forbidden, NotFound
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint, parse_untrusted
from federation.edge.resources import MULTIKUEUE_CLUSTERS, SECRETS
from federation.edge.run_reader import JOB, LogOptions, Run, RunMissing, RunReader, find_run
from fedq.connect import Cluster
from fedq.errors import BAD_INPUT, CommandError
from fedq.objects import find
from fedq.refs import read_ref

Json = dict[str, Any]


class Reader(Protocol):
    """What both ways offer."""

    run: Run

    async def pods(self) -> list[Json]:
        """Pods of the run, the oldest first."""

    async def events(self) -> list[Json]:
        """Events of the run and its pods, the oldest first."""

    def log(self, pod: str, options: LogOptions) -> AsyncGenerator[bytes, None]:
        """The log of a container."""


@dataclass(frozen=True, slots=True)
class Manager:
    """How to reach the manager's pages: its URL, and the file of the CA that its certificate is
    of.
    """

    url: str = ""
    ca: Path | None = None


class ManagerReader:
    """Reads through the manager. `client` is of the manager."""

    def __init__(self, client: KubeClient, run: Run) -> None:
        self._client, self.run = client, run
        space, name = quote(run.namespace, safe=""), quote(run.name, safe="")
        of_kind = f"kinds/{quote(run.kind.name, safe='')}"
        kind = "jobs" if run.kind.name == BATCH_JOB else of_kind
        self._base = f"/v1/namespaces/{space}/{kind}/{name}"

    async def _items(self, page: str) -> list[Json]:
        try:
            answer: Json = from_json(await self._client.raw("GET", f"{self._base}/{page}"))
        except NotFound as error:
            raise RunMissing(str(error)) from error
        told = answer["run"]
        self.run = replace(
            self.run, cluster=told["cluster"], attempt=told["attempt"], ended=told["ended"]
        )
        return list(answer["items"])

    async def pods(self) -> list[Json]:
        """See Reader."""
        return await self._items("pods")

    async def events(self) -> list[Json]:
        """See Reader."""
        return await self._items("events")

    async def log(self, pod: str, options: LogOptions) -> AsyncGenerator[bytes, None]:
        """See Reader."""
        query = f"pod={quote(pod, safe='')}&{options.query()}".rstrip("&")
        async with aclosing(self._client.stream(f"{self._base}/log?{query}")) as chunks:
            async for chunk in chunks:
                yield chunk


def open_worker(endpoint: Endpoint) -> KubeClient:
    """A client of a worker cluster, or of the manager; replaced in tests."""
    return KubeClient(endpoint, user_agent="fedq-cli")


@asynccontextmanager
async def reader(
    cluster: Cluster, endpoint: Endpoint, namespace: str, name: str, manager: Manager
) -> AsyncIterator[Reader]:
    """Whatever way there is to read the run of a job: NAME or KIND/NAME. `endpoint` is that of the
    management cluster. Raises CommandError, and RunMissing if there is nothing to read.
    """
    if manager.url:
        async with open_worker(_manager_endpoint(manager, endpoint)) as client:
            yield ManagerReader(client, await _named(cluster.client, namespace, name))
        return
    found = await find(cluster.client, name, namespace)
    run = await find_run(cluster.client, namespace, found.body["metadata"]["name"], found.kind)
    kubeconfig = await _kubeconfig(cluster.client, run)
    async with open_worker(parse_untrusted(kubeconfig, run.cluster)) as client:
        client.halted = lambda: "logs and events are only read"
        yield RunReader(client, run)


async def _named(client: KubeClient, namespace: str, text: str) -> Run:
    """What the manager is to be asked for, which may be all that the person may do here: a name
    alone is a Job's where nothing else can be found.
    """
    ref = read_ref(text)
    if ref.kind is None:
        try:
            found = await find(client, text, namespace)
        except CommandError as error:
            if error.code == BAD_INPUT:  # there are several
                raise
        except ApiError:
            pass
        else:
            return Run(namespace, found.body["metadata"]["name"], "", "", 0, kind=found.kind)
    return Run(namespace, ref.name, "", "", 0, kind=ref.kind or JOB)


def _manager_endpoint(manager: Manager, home: Endpoint) -> Endpoint:
    token = home.token or (home.refresh() if home.refresh is not None else "")
    if not token:
        raise CommandError(
            "the manager is asked with a token, and your kubeconfig has none",
            "it identifies you by a client certificate, which only the API server can check",
            "Use a kubeconfig with a token: `kubectl create token NAME` makes one for a"
            " ServiceAccount.",
        )
    url = urlsplit(manager.url)
    local = url.scheme == "http" and url.hostname in ("127.0.0.1", "localhost", "::1")
    if url.scheme != "https" and not local:
        raise CommandError(
            f"{manager.url} is no https:// address",
            "your token would be sent in the clear",
            "Name the manager with https:// (--manager, FEDQ_MANAGER).",
        )
    ca = manager.ca.read_text() if manager.ca else home.ca_pem
    return Endpoint(manager.url, ca_pem=ca, token=token, name="the manager")


async def _kubeconfig(client: KubeClient, run: Run) -> bytes:
    """The kubeconfig of the run's cluster, for those who may read it."""
    try:
        obj = await client.get(MULTIKUEUE_CLUSTERS, run.cluster)
        source = MultiKueueCluster.from_wire({**obj, "status": {}}).spec.cluster_source
        config = source.kube_config if source else None
        if config is not None and config.location_type == "Secret":
            return await _secret(client, config.location, run)
    except Forbidden as error:
        raise _no_way(run, str(error)) from error
    raise _no_way(run, f"the kubeconfig of cluster {run.cluster} is no Secret")


async def _secret(client: KubeClient, name: str, run: Run) -> bytes:
    for namespace in (FEDQ_NAMESPACE, KUEUE_NAMESPACE):
        try:
            found = await client.get(SECRETS, name, namespace)
        except NotFound:
            continue
        if text := (found.get("data") or {}).get(KUBECONFIG_KEY):
            return base64.b64decode(text)
    raise _no_way(run, f"there is no Secret {name} with the kubeconfig of cluster {run.cluster}")


def _no_way(run: Run, why: str) -> CommandError:
    return CommandError(
        f"{run} cannot be read from here",
        why,
        "Ask the manager: --manager https://HOST:PORT (or FEDQ_MANAGER). It reads for those who may"
        f" get pods/log, or events, in namespace {run.namespace} of the management cluster.",
    )
