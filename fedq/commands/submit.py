"""`fedq submit FILE`: create objects on the management cluster, and wait for the Jobs."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from federation.core.facts import BATCH_JOB
from federation.edge.errors import AlreadyExists, ApiError, Invalid, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import LOCAL_QUEUES
from federation.jobs.kinds.kind import JobKind
from federation.jobs.kinds.pod_groups import group_of
from fedq import connect
from fedq.board import Board
from fedq.connect import Cluster, ContextOption, KubeconfigOption, NamespaceOption
from fedq.errors import BAD_INPUT, FAILED, CommandError, from_api
from fedq.following import Wanted, follow
from fedq.jobview import JobState
from fedq.kind_checks import queue_of, written_by_others
from fedq.manifests import Manifest, Reading, read, read_text
from fedq.objects import not_served
from fedq.refs import never_ends, shown
from fedq.sameness import differences

Json = dict[str, Any]

IN_FLIGHT = 16


@dataclass(slots=True)
class Sent:
    """What became of the manifests: jobs to wait for (see `following.Key`), and how
    many were refused and why.
    """

    jobs: dict[tuple[str, str], str] = field(default_factory=dict)
    kinds: dict[tuple[str, str], JobKind] = field(default_factory=dict)
    refused: Counter[int] = field(default_factory=Counter)
    """Exit code → how many."""


def submit(
    file: Annotated[str, typer.Argument(help="YAML or JSON, one or many objects; - is stdin.")],
    wait: Annotated[bool, typer.Option("--wait", help="Follow the jobs until all ended.")] = False,
    namespace: NamespaceOption = "",
    timeout: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds to wait at most.", show_default=False),
    ] = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Submit jobs of all kinds (and queues) to the management cluster.

    Everything is checked before anything is sent. Submitting a file again changes nothing.
    Exit code: 0 done (with --wait: every job is Complete), 1 a job failed, 2 bad input.
    """
    source, text = read_text(file)
    _tell(read(text, source, namespace, "default"))  # bad input needs no cluster to be refused
    target = connect.choose(kubeconfig, context)
    reading = read(text, source, namespace, target.namespace)
    try:
        code = connect.run(target, lambda cluster: _submit(cluster, reading, wait, timeout))
    except KeyboardInterrupt:
        typer.echo("what was sent goes on: `fedq get jobs` shows it", err=True)
        raise
    if code:
        raise typer.Exit(code)


def _tell(reading: Reading) -> None:
    """Print warnings; raises CommandError with all problems."""
    for warning in reading.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if reading.problems:
        count = len(reading.problems)
        raise CommandError(
            f"nothing was sent: {count} problem{'s' if count > 1 else ''} in the input",
            "\n".join(reading.problems),
            code=BAD_INPUT,
        )


async def _submit(cluster: Cluster, reading: Reading, wait: bool, patience: float | None) -> int:
    """Send all, then wait if asked to; the exit code."""
    sent = Sent()
    jobs = [manifest for manifest in reading.manifests if manifest.is_job]
    for manifest in reading.manifests:
        if not manifest.is_job:
            await _send(cluster.client, manifest, sent)
    await _warn_of_queues(cluster.client, jobs)
    for start in range(0, len(jobs), IN_FLIGHT):
        batch = jobs[start : start + IN_FLIGHT]
        await asyncio.gather(*(_send(cluster.client, manifest, sent) for manifest in batch))
    if len(jobs) < len(reading.manifests) and cluster.rig is not None:
        typer.echo("hint: workers need their queues as well: `fedq rig apply FILE`", err=True)
    code = max(sent.refused, default=0)
    if wait:
        _tell_of_endless(jobs)
    if wait and sent.jobs:
        wanted = Wanted(sent.jobs, sent.kinds)
        code = max(code, await _wait(cluster.client, wanted, patience))
    return code


def _tell_of_endless(jobs: list[Manifest]) -> None:
    for manifest in jobs:
        if manifest.kind is None or never_ends(manifest.kind):
            typer.echo(f"warning: {manifest} never ends: it is not waited for", err=True)


async def _send(client: KubeClient, manifest: Manifest, sent: Sent) -> None:
    """Create one object; the others go on when it is refused."""
    try:
        made, word = await _create(client, manifest)
    except CommandError as error:
        typer.echo(f"error: {manifest.where}: {error}", err=True)
        sent.refused[error.code] += 1
        return
    except ApiError as error:
        if error.retryable or error.status == 401:
            raise
        typer.echo(f"error: {manifest.where}: {manifest}: {_refusal(manifest, error)}", err=True)
        sent.refused[BAD_INPUT if isinstance(error, Invalid) else FAILED] += 1
        return
    meta = made["metadata"]
    _note(manifest, made, sent)
    prefix = f"{meta['namespace']}/" if meta.get("namespace") else ""
    typer.echo(f"{manifest.word} {prefix}{meta['name']} {word}")


def _note(manifest: Manifest, made: Json, sent: Sent) -> None:
    """What can be waited for: a Job, and others that are queued and end. Of a group of pods one."""
    kind, meta = manifest.kind, made["metadata"]
    if kind is None or never_ends(kind):
        return
    name = meta["name"]
    if kind.bundled:
        name = group_of(made).name.removeprefix("pod/")
    key = meta["namespace"], shown(kind, name)
    if kind.name != BATCH_JOB:
        if not queue_of(made):
            return
        sent.kinds[key] = kind
    sent.jobs[key] = meta["uid"]


async def _create(client: KubeClient, manifest: Manifest) -> tuple[Json, str]:
    try:
        # As kubectl does: a field with a typing error must not be dropped without a word.
        made = await client.create(manifest.resource, manifest.body, strict=manifest.is_job)
        return made, "created"
    except AlreadyExists:
        namespace = manifest.namespace or None
        found = await client.get(manifest.resource, manifest.name, namespace)
    others_write = written_by_others(manifest.kind)
    differing = differences(manifest.body, found, others_write)
    if not differing:
        return found, "unchanged"
    todo = "Change it with `kubectl apply`."
    if manifest.is_job:
        space, name = manifest.namespace, manifest.name
        todo = (
            f"Delete it first (`kubectl delete {manifest.word} {name} -n {space}`), or submit under"
            f" another metadata.name: a {manifest.body['kind']} that is there is not changed."
        )
    raise CommandError(
        f"{manifest} is there already, and differs", "\n".join(differing), todo, code=BAD_INPUT
    )


def _refusal(manifest: Manifest, error: ApiError) -> str:
    if isinstance(error, NotFound) and "namespaces" in str(error):
        space = manifest.namespace
        return f"namespace {space} does not exist: `kubectl create namespace {space}` makes it"
    if isinstance(error, NotFound) and manifest.kind is not None:
        return str(not_served(manifest.kind))
    return str(from_api(error))


async def _warn_of_queues(client: KubeClient, jobs: list[Manifest]) -> None:
    """Say which LocalQueues do not exist: such jobs wait until somebody makes them."""
    doors = {(job.namespace, str(queue)) for job in jobs if (queue := queue_of(job.body))}
    for namespace, queue in sorted(doors):
        try:
            found = await client.list(LOCAL_QUEUES, namespace)
        except ApiError:
            continue  # a user who may not read queues can submit all the same
        names = sorted(item["metadata"]["name"] for item in found.items)
        if queue not in names:
            typer.echo(
                f"warning: there is no LocalQueue {namespace}/{queue}: its jobs wait until it is"
                f" created (in {namespace} there is {', '.join(names) or 'none'})",
                err=True,
            )


async def _wait(client: KubeClient, wanted: Wanted, patience: float | None) -> int:
    with Board() as board:
        follower = await follow(client, wanted, board.show, patience)
    views = follower.views
    left = follower.left
    for namespace, name in sorted(follower.gone):
        typer.echo(f"error: {namespace}/{name} was deleted before it ended", err=True)
    if left:
        typer.echo(
            f"error: {len(left)} of {len(views)} jobs have not ended after {patience:g} s"
            f" and go on; `fedq why {left[0].ref} -n {left[0].namespace}` says more",
            err=True,
        )
    complete = sum(view.state is JobState.COMPLETE for view in views)
    typer.echo(f"{complete} of {len(wanted.uids)} Jobs Complete")
    return 0 if complete == len(wanted.uids) else FAILED
