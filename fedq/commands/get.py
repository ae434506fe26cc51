"""`fedq get KIND [NAME]`: jobs, workloads, queues and clusters as one table each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from federation.api.names import ConditionType
from federation.api.record import find as find_condition
from federation.edge.configuration_file import configured_kinds
from federation.edge.resources import CLUSTER_QUEUES, MULTIKUEUE_CLUSTERS, WORKLOADS
from fedq import completion, connect, reading
from fedq.clusterview import ClusterView
from fedq.connect import Cluster, ContextOption, KubeconfigOption, NamespaceOption
from fedq.errors import BAD_INPUT, CommandError
from fedq.jobview import JobView, job_views
from fedq.kindview import KindView, kind_views, with_served
from fedq.objects import find
from fedq.output import Output, OutputOption, age, columns, dump, since
from fedq.queueview import QueueView
from fedq.refs import CONFIG

Json = dict[str, Any]
T = TypeVar("T")

app = typer.Typer(
    help="Show jobs, workloads, queues, clusters or kinds of the management cluster.",
    epilog="Examples:  fedq get jobs -A   |   fedq get queues   |   fedq get clusters -o json",
    no_args_is_help=True,
    rich_markup_mode=None,
)

AllOption = Annotated[bool, typer.Option("-A", "--all-namespaces", help="All namespaces.")]


def _name(complete: Callable[[typer.Context, str], list[str]]) -> Any:
    return typer.Argument(help="Only this one.", show_default=False, autocompletion=complete)


@app.command("job", hidden=True)
@app.command(
    "jobs",
    epilog="Examples:  fedq get jobs   |   fedq get jobs -A   |   fedq get jobs a -o yaml   |"
    "   fedq get jobs jobset/train",
)
def jobs(
    name: Annotated[str, _name(completion.job_names)] = "",
    namespace: NamespaceOption = "",
    everywhere: AllOption = False,
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Jobs of all kinds: queue, state, the cluster they are on, attempt, priority.

    Those of other kinds than batch/v1 Job are listed as KIND/NAME, if they name a queue.
    """

    async def read(cluster: Cluster) -> list[JobView]:
        space = namespace or cluster.namespace
        if name:
            found = await find(cluster.client, name, space)
            return job_views([found], (await cluster.client.list(WORKLOADS, space)).items)
        return await reading.jobs(cluster.client, None if everywhere else space)

    headings = ("NAME", "QUEUE", "STATE", "CLUSTER", "ATTEMPT", "PRIORITY", "AGE")
    views = _run(kubeconfig, context, read)
    rows = [
        (v.ref, v.queue, v.state, v.cluster, v.attempt or None, v.priority, since(v.created))
        for v in views
    ]
    table = _with_namespace(everywhere, headings, rows, [view.namespace for view in views])
    _print(output, name, views, table, "no jobs")


@app.command("workload", hidden=True)
@app.command("workloads", epilog="Examples:  fedq get workloads   |   fedq get workloads -A")
def workloads(
    name: Annotated[str, _name(completion.workload_names)] = "",
    namespace: NamespaceOption = "",
    everywhere: AllOption = False,
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Workloads, the records of the queue; -o json|yaml prints the whole objects."""

    async def read(cluster: Cluster) -> list[Json]:
        space = namespace or cluster.namespace
        if name:
            return [await reading.find(cluster.client, WORKLOADS, name, space)]
        found = await cluster.client.list(WORKLOADS, None if everywhere else space)
        return sorted(found.items, key=_key)

    found = _run(kubeconfig, context, read)
    headings = ("NAME", "QUEUE", "RESERVED IN", "ADMITTED", "FINISHED", "CLUSTER", "ATTEMPT", "AGE")
    rows = [_workload_row(obj) for obj in found]
    namespaces = [_key(obj)[0] for obj in found]
    table = _with_namespace(everywhere, headings, rows, namespaces)
    _print(output, name, found, table, "no Workloads")


def _key(obj: Json) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _workload_row(obj: Json) -> tuple[object, ...]:
    status = obj.get("status") or {}
    fedq = status.get("fedq") or {}
    kinds = (ConditionType.ADMITTED, ConditionType.FINISHED)
    conditions = ((find_condition(status, kind) or {}).get("status") for kind in kinds)
    return (
        obj["metadata"]["name"],
        (obj.get("spec") or {}).get("queueName"),
        (status.get("admission") or {}).get("clusterQueue"),
        *conditions,
        fedq.get("cluster") or status.get("clusterName"),
        fedq.get("attempt"),
        since(obj["metadata"]["creationTimestamp"]),
    )


@app.command("queue", hidden=True)
@app.command("queues", epilog="Examples:  fedq get queues   |   fedq get queues research -o json")
def queues(
    name: Annotated[str, _name(completion.queue_names)] = "",
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """ClusterQueues: how many Workloads wait and run, and used/nominal of every quota."""

    async def read(cluster: Cluster) -> list[QueueView]:
        if name:
            await reading.find(cluster.client, CLUSTER_QUEUES, name)
        return [v for v in await reading.queues(cluster.client) if name in ("", v.name)]

    views = _run(kubeconfig, context, read)
    headings = ("NAME", "COHORT", "PENDING", "RESERVING", "ADMITTED", "USED/NOMINAL", "PROBLEM")
    rows = [
        (v.name, v.cohort, v.pending, v.reserving, v.admitted, _quotas(v), v.problem) for v in views
    ]
    _print(output, name, views, (headings, rows), "no ClusterQueues")


def _quotas(view: QueueView) -> str:
    return ", ".join(f"{q.flavor}/{q.resource} {q.used}/{q.nominal}" for q in view.usage)


@app.command("cluster", hidden=True)
@app.command("clusters", epilog="Examples:  fedq get clusters   |   fedq get clusters -o json")
def clusters(
    name: Annotated[str, _name(completion.cluster_names)] = "",
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Worker clusters: where each stands, since when, what comes next and when; jobs on them."""

    async def read(cluster: Cluster) -> list[ClusterView]:
        if name:
            await reading.find(cluster.client, MULTIKUEUE_CLUSTERS, name)
        jobs = await reading.jobs(cluster.client, None)
        views = await reading.clusters(cluster.client, jobs)
        return [view for view in views if name in ("", view.name)]

    views = _run(kubeconfig, context, read)
    headings = (
        *("NAME", "STATE", "SINCE", "TIER", "EPOCH", "AGENT", "OFFERED", "RUNNING"),
        *("NEXT", "MESSAGE"),
    )
    rows = [_cluster_row(view) for view in views]
    none = "no worker clusters: is this the management cluster?"
    _print(output, name, views, (headings, rows), none)


def _cluster_row(view: ClusterView) -> tuple[object, ...]:
    agent = f"{since(view.renewed)} ago" if view.renewed else "never seen"
    known = (view.name, view.state, since(view.since), view.tier, view.epoch or None, agent)
    parts = [] if view.connected == "True" else [view.reason, view.message]
    message = "; ".join(text for text in (": ".join(filter(None, parts)), view.held) if text)
    return (*known, view.offered, view.running, _next_step(view), message)


def _next_step(view: ClusterView) -> str:
    """What comes next, and in what time."""
    if not view.next_at:
        return view.next
    left = (datetime.fromisoformat(view.next_at) - datetime.now(UTC)).total_seconds()
    return f"{view.next} {f'in {age(left)}' if left > 0 else 'now'}"


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar=CONFIG,
        help="The Configuration: it adds kinds, or switches them off.",
    ),
]


@app.command("kind", hidden=True)
@app.command("kinds", epilog="Examples:  fedq get kinds   |   fedq get kinds -o json")
def kinds(
    name: Annotated[str, typer.Argument(help="Only this one.", show_default=False)] = "",
    config: ConfigOption = None,
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Kinds of jobs, whether this cluster serves them, and which the Configuration switches off."""
    known = kind_views(configured_kinds(config))

    async def read(cluster: Cluster) -> list[KindView]:
        return await with_served(cluster.client, known)

    views = [v for v in _run(kubeconfig, context, read) if name.lower() in ("", v.kind.lower())]
    if name and not views:
        todo = "`fedq get kinds` lists those that there are."
        raise CommandError(f"there is no kind {name}", todo=todo, code=BAD_INPUT)
    headings = ("KIND", "API VERSION", "SERVED", "QUEUED", "SUSPENDED BY", "MANAGED BY", "NOTE")
    rows = [(*_shown(v), v.suspend, v.managed_by, v.note) for v in views]
    _print(output, name, views, (headings, rows), "no kinds")


def _shown(view: KindView) -> tuple[str, ...]:
    on = "yes" if view.switched_on else "switched off"
    return view.kind, view.api_version, "yes" if view.served else "no", on


def _run(
    kubeconfig: Path | None, context: str | None, read: Callable[[Cluster], Awaitable[T]]
) -> T:
    return connect.run(connect.choose(kubeconfig, context), read)


def _with_namespace(
    everywhere: bool,
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    namespaces: Sequence[str],
) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
    if not everywhere:
        return headings, rows
    return ("NAMESPACE", *headings), [
        (namespace, *row) for namespace, row in zip(namespaces, rows, strict=True)
    ]


def _print(
    output: Output,
    name: str,
    found: Sequence[Any],
    table: tuple[Sequence[str], Sequence[Sequence[object]]],
    none: str,
) -> None:
    """A list, or with a name the one object."""
    if output is not Output.table:
        typer.echo(dump(found[0] if name else list(found), output))
    elif found:
        typer.echo(columns(*table))
    else:
        typer.echo(none, err=True)
