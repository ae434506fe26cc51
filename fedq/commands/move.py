"""`fedq move JOB --to CLUSTER`: run a job on that cluster, whatever the queue would choose."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from federation.api import record as records
from federation.api.names import Order as Note
from federation.api.orders import move_target
from federation.core.failover import OnDisconnect
from federation.edge.resources import MULTIKUEUE_CLUSTERS, WORKLOADS
from fedq import completion, connect
from fedq.clusterdata import pick
from fedq.connect import Cluster, ContextOption, KubeconfigOption, NamespaceOption
from fedq.errors import BAD_INPUT, CommandError
from fedq.evacuation import no_new_work
from fedq.jobview import JobState, JobView, job_view
from fedq.objects import find
from fedq.output import Output, dump

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Moving:
    """A job, its Workload, and the cluster that it is to run on ('' to take an order back)."""

    view: JobView
    workload: Json
    to: str

    @property
    def text(self) -> str:
        """What happens, in a sentence."""
        job, record = self.view.title, records.read_record(self.workload)
        if not self.to:
            before = move_target(self.workload)
            return f"{job} may run anywhere; it was to run on {before}" if before else _FREE
        bound = record.binding
        if bound is None:
            return f"{job} waits; when there is room for it on {self.to} it runs there"
        if bound.cluster == self.to:
            return f"{job} is on {self.to} already and stays there"
        what = "is stopped on"
        if bound.policy is OnDisconnect.DUPLICATE_OK:
            what = "goes on, until the new copy runs, on"
        return (
            f"{job} {what} {bound.cluster}, keeps its priority and age, and runs on {self.to} as"
            f" attempt {bound.attempt + 1} when there is room; what it did since its last"
            " checkpoint is lost"
        )


_FREE = "nothing was ordered of this job"

ToOption = Annotated[
    str,
    typer.Option(
        "--to",
        help="The cluster to run on.",
        show_default=False,
        autocompletion=completion.cluster_names,
    ),
]
CancelOption = Annotated[bool, typer.Option("--cancel", help="Take such an order back.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would happen; do nothing.")]
OutputOption = Annotated[Output, typer.Option("-o", "--output", help="table is a sentence.")]


def move(
    name: completion.JobArgument,
    to: ToOption = "",
    cancel: CancelOption = False,
    namespace: NamespaceOption = "",
    dry_run: DryRunOption = False,
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Run a job on a cluster of your choice: it is stopped where it runs, and starts there.

    It leaves only for a cluster that is well and could take it, and goes nowhere else then: if
    there is no room, it waits for that cluster.
    """
    if bool(to) == cancel:
        raise CommandError(
            "it is not said where the job is to run",
            "exactly one of --to CLUSTER and --cancel is needed",
            "`fedq get clusters` shows the clusters.",
            code=BAD_INPUT,
        )

    async def work(cluster: Cluster) -> Moving:
        found = await _find(cluster, name, namespace or cluster.namespace, to)
        if not dry_run:
            await _order(cluster, found)
        return found

    found = connect.run(connect.choose(kubeconfig, context), work)
    if output is Output.table:
        typer.echo(f"{found.text}{' (nothing was done: --dry-run)' if dry_run else ''}")
        return
    typer.echo(dump({**_report(found), "dryRun": dry_run}, output))


def _report(found: Moving) -> Json:
    view = found.view
    return {
        "namespace": view.namespace,
        "job": view.name,
        "kind": view.kind,
        "state": view.state.value,
        "from": view.cluster,
        "to": found.to,
        "message": found.text,
    }


async def _find(cluster: Cluster, name: str, namespace: str, to: str) -> Moving:
    job = await find(cluster.client, name, namespace)
    workloads, clusters = await asyncio.gather(
        cluster.client.list(WORKLOADS, namespace), cluster.client.list(MULTIKUEUE_CLUSTERS)
    )
    workload = next((w for w in workloads.items if records.owner_uid(w) == job.uid), None)
    view = job_view(job.body, workload, job.kind)
    if workload is None or view.state.ended or view.state is JobState.DELETING:
        raise CommandError(
            f"{view.kind} {namespace}/{view.name} cannot be moved",
            _unmovable(view),
            f"`fedq why {view.ref} -n {namespace}` tells more.",
        )
    if to and (problem := no_new_work(pick(to, clusters.items))):
        raise CommandError(
            f"nothing can be moved to cluster {to} now",
            problem,
            f"`fedq get clusters {to}` shows it; `fedq cluster uncordon {to}` ends a cordon.",
        )
    return Moving(view, workload, to)


def _unmovable(view: JobView) -> str:
    if view.state.ended:
        return f"it has ended: {view.state.value}"
    if view.state is JobState.DELETING:
        return "it is being deleted"
    if view.state is JobState.NOT_QUEUED:
        return "it names no queue: Fedq does not look at it"
    return "it has no Workload yet: the manager has not seen it"


async def _order(cluster: Cluster, found: Moving) -> None:
    """Write the order on the Workload, if it still is the one that was read."""
    meta = found.workload["metadata"]
    notes = {Note.MOVE_TO.value: found.to or None}
    await cluster.client.patch(
        WORKLOADS,
        meta["name"],
        {"metadata": {"uid": meta["uid"], "annotations": notes}},
        meta["namespace"],
        field_manager="fedq-cli",
    )
