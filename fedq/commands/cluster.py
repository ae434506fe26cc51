"""`fedq cluster`: what operators order of worker clusters.

Orders are annotations of the MultiKueueCluster (`federation.api.orders`): they outlive restarts,
and the manager follows them.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from federation.api.lease import over_below
from federation.api.names import Order as Note
from federation.api.orders import GRACEFUL, NOW, cluster_orders
from federation.edge.resources import MULTIKUEUE_CLUSTERS
from fedq import completion, connect
from fedq.clusterdata import Situation, read_situation, registration
from fedq.connect import Cluster, ContextOption, KubeconfigOption
from fedq.errors import BAD_INPUT, CommandError
from fedq.evacuation import AWAY, BoundJob, Order, destinations, phase
from fedq.leaving import Progress, note_on_lease, remove_all, until_empty
from fedq.output import Output, columns, dump, wire

Json = dict[str, Any]

app = typer.Typer(
    help="Give orders about worker clusters: no new work, take the jobs off, let it go.",
    epilog="Examples:  fedq cluster cordon east --reason 'new cards'   |"
    "   fedq cluster drain east --now --dry-run   |   fedq cluster leave east",
    no_args_is_help=True,
    rich_markup_mode=None,
)
fence = typer.Typer(
    help="Fences of clusters that are lost.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(fence, name="fence")

NameArgument = Annotated[
    str,
    typer.Argument(help="Name of the cluster.", autocompletion=completion.cluster_names),
]
ReasonOption = Annotated[
    str, typer.Option(help="Why, for those who wonder why nothing goes there.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would happen; do nothing.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
OutputOption = Annotated[Output, typer.Option("-o", "--output", help="table is text.")]


@app.command(epilog="Examples:  fedq cluster cordon east   |   fedq cluster cordon east --dry-run")
def cordon(
    name: NameArgument,
    reason: ReasonOption = "",
    dry_run: DryRunOption = False,
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Give a cluster no new work. What is there stays."""

    async def work(cluster: Cluster) -> Situation:
        found = await read_situation(cluster.client, name, Order.CORDON)
        if not dry_run:
            await _annotate(cluster, name, {Note.CORDON: reason or _kept(found) or "cordoned"})
        return found

    found = _run(kubeconfig, context, work)
    done = f"{name} gets no new work; what is there stays. Undo: `fedq cluster uncordon {name}`"
    _tell(found, done, dry_run=dry_run, output=output)


@app.command(epilog="Examples:  fedq cluster uncordon east")
def uncordon(
    name: NameArgument,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Give a cluster new work again; a drain ends too. What has left it does not come back."""

    async def work(cluster: Cluster) -> Situation:
        found = await read_situation(cluster.client, name, Order.UNCORDON)
        if not dry_run:
            await _annotate(cluster, name, {Note.CORDON: None, Note.DRAIN: None})
        return found

    found = _run(kubeconfig, context, work)
    was = cluster_orders(found.cluster).cordon if found.cluster is not None else ""
    text = f"{name} gets new work again" if was else f"{name} was not cordoned"
    _tell(found, text, dry_run=dry_run, output=output)


@app.command(
    epilog="Examples:  fedq cluster drain east --wait   |   fedq cluster drain east --now --dry-run"
    "   |   fedq cluster drain east --now --wait --timeout 600"
)
def drain(
    name: NameArgument,
    now: Annotated[
        bool,
        typer.Option(
            "--now/--graceful",
            help="now: stop what runs, it starts elsewhere. graceful: let it end there.",
        ),
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Until nothing is bound there.")] = False,
    timeout: Annotated[
        float | None, typer.Option(min=0, help="Seconds to wait at most.", show_default=False)
    ] = None,
    reason: ReasonOption = "",
    dry_run: DryRunOption = False,
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Take the jobs off a cluster, and give it no new ones until it is uncordoned."""
    order = Order.NOW if now else Order.GRACEFUL

    async def work(cluster: Cluster) -> Situation:
        found = await read_situation(cluster.client, name, order)
        if dry_run:
            return found
        why = reason or _kept(found) or "being drained"
        await _annotate(cluster, name, {Note.CORDON: why, Note.DRAIN: NOW if now else GRACEFUL})
        if wait:
            await until_empty(cluster.client, name, timeout, _progress(name))
        return found

    found = _run(kubeconfig, context, work)
    what = "what runs there moves" if now else "what runs there may end"
    done = f"{name} is drained: {what}, and nothing new comes. Undo: `fedq cluster uncordon {name}`"
    if wait and not dry_run:
        done = f"nothing is bound to {name} any more. `fedq cluster leave {name}` takes it out"
    _tell(found, done, dry_run=dry_run, output=output)


@fence.command(
    "confirm",
    epilog="Examples:  fedq cluster fence confirm east --evidence 'powered off, ticket 4711'",
)
def confirm(
    name: NameArgument,
    evidence: Annotated[str, typer.Option(help="How you made sure; kept on the cluster.")] = "",
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Confirm that nothing runs any more on a cluster that is fenced: it was powered off.

    Jobs of every policy run again elsewhere, those that keep running too. If something does run
    there still, it runs twice. It may be a cluster that has left the federation.
    """

    async def work(cluster: Cluster) -> Situation:
        found = await read_situation(cluster.client, name, Order.CONFIRM)
        epoch = _fenced_epoch(found)
        if dry_run:
            return found
        if not yes:
            typer.confirm(_question(found), abort=True, err=True)
        if found.cluster is None:  # it has left: what stays of it is its Lease
            await note_on_lease(cluster.client, found, epoch, evidence)
            return found
        notes = {Note.FENCE_CONFIRMED: str(epoch), Note.FENCE_EVIDENCE: evidence or None}
        await _annotate(cluster, name, notes)
        return found

    found = _run(kubeconfig, context, work)
    count = len(found.jobs)
    done = f"all that was bound to {name} before the fence counts as dead: {_jobs(count)}"
    _tell(found, done, dry_run=dry_run, output=output)


@app.command(epilog="Examples:  fedq cluster leave east   |   fedq cluster leave east --dry-run")
def leave(
    name: NameArgument,
    force: Annotated[bool, typer.Option("--force", help="Although jobs are bound there.")] = False,
    dead: Annotated[
        bool,
        typer.Option(
            "--dead",
            help="With --force: confirm that nothing runs there, as `fence confirm` does; it has to"
            " be fenced.",
        ),
    ] = False,
    evidence: Annotated[str, typer.Option(help="With --dead: how you made sure.")] = "",
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Take a cluster out of the federation: its MultiKueueCluster, its Secret, its agent's access.

    Refused while jobs are bound there. With --force they are given up: those with policy `stop` or
    `duplicate-ok` run again elsewhere when the fence holds, and lose what they did since. Those
    with `keep` do so only with --dead, or after `fedq cluster fence confirm`.
    """

    async def work(cluster: Cluster) -> Situation:
        found = await read_situation(cluster.client, name, Order.LEAVE)
        if found.jobs and not force:
            raise _still_bound(found)
        if dead and not force:
            raise _only_by_force()
        if dead or (not dry_run and _asks(found)):
            found = await _declared_dead(cluster, found, evidence, yes=yes, dry_run=dry_run)
        if dry_run:
            return found
        before = _kept(found) or None
        await _annotate(cluster, name, {Note.CORDON: "it leaves"})
        if not force:  # one may have been bound in the moment before the cordon
            found = await read_situation(cluster.client, name, Order.LEAVE)
            if found.jobs:
                await _annotate(cluster, name, {Note.CORDON: before})
                raise _still_bound(found)
        await remove_all(cluster.client, registration(found))
        return found

    found = _run(kubeconfig, context, work)
    _tell(found, _left(found), dry_run=dry_run, output=output)


def _asks(found: Situation) -> bool:
    """Whether a person is there to say that nothing runs on a fenced cluster, and jobs wait for
    that.
    """
    fenced = found.lease is not None and over_below(found.lease)
    return bool(fenced) and any(job.waits for job in found.jobs) and sys.stdin.isatty()


async def _declared_dead(
    cluster: Cluster, found: Situation, evidence: str, *, yes: bool, dry_run: bool
) -> Situation:
    """What becomes of its jobs if nothing runs there any more, and that said on its Lease. A person
    who is asked and says no leaves the cluster as it is found.
    """
    dead = await read_situation(cluster.client, found.name, Order.CONFIRM)
    epoch = _fenced_epoch(dead)  # of the Lease as it is written: its agent may just have come back
    if not dry_run:
        if not yes and not typer.confirm(_question(dead), err=True):
            return found
        await note_on_lease(cluster.client, dead, epoch, evidence)
    return replace(dead, order=Order.LEAVE)


def _left(found: Situation) -> str:
    text = f"{found.name} has left. Its own objects stay; stop its agent there"
    if found.configs:
        text += f". MultiKueueConfig {', '.join(found.configs)} still names it: take it out"
    waiting = [job for job in found.jobs if job.waits and job.becomes.startswith("waits")]
    if waiting:
        names = "\n".join(f"  {job.namespace}/{job.name}" for job in waiting)
        text += (
            f".\n{_jobs(len(waiting))} with policy keep, which nothing starts elsewhere by itself:"
            f"\n{names}\nOnce {found.name} is fenced, and nothing of that runs there for certain:"
            f"\n  fedq cluster fence confirm {found.name} --evidence 'how you made sure'"
        )
    return text


# What is said


def _tell(found: Situation, done: str, *, dry_run: bool, output: Output) -> None:
    """The result for people or programs; with --dry-run what would be."""
    others = destinations(found.name, found.clusters)
    if output is not Output.table:
        report = {
            "cluster": found.name,
            "order": found.order.value,
            "dryRun": dry_run,
            "phase": _phase(found),
            "jobs": wire(found.jobs),
            "destinations": others,
        }
        typer.echo(dump(report, output))
        return
    if not dry_run:
        typer.echo(done)
        return
    typer.echo(f"`fedq cluster {found.order.value}` of {found.name}, if it were done now:")
    typer.echo(_table(found.jobs) if found.jobs else f"no jobs are bound to {found.name}")
    if found.jobs and found.order is not Order.CORDON and found.order is not Order.UNCORDON:
        typer.echo(_where(others))
    if found.order is Order.LEAVE:
        gone = ", ".join(f"{obj['kind']} {obj['metadata']['name']}" for obj in registration(found))
        typer.echo(f"deleted would be: {gone}")


def _table(jobs: list[BoundJob]) -> str:
    headings = ("NAMESPACE", "JOB", "STATE", "ATTEMPT", "POLICY", "WHAT BECOMES OF IT")
    rows = [(j.namespace, j.name, j.state, j.attempt, j.policy, j.becomes) for j in jobs]
    return columns(headings, rows)


def _where(others: list[str]) -> str:
    if not others:
        return "no other cluster takes new work now: jobs that leave would wait in the queue"
    return (
        f"clusters that take new work now: {', '.join(others)}. Which of them has room, and may be"
        " used by a job's queue, is decided when its turn comes"
    )


def _progress(name: str) -> Progress:
    def tell(left: int) -> None:
        verb = "is" if left == 1 else "are"
        typer.echo(f"{_jobs(left)} {verb} still bound to {name}", err=True)

    return tell


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


# What is refused


def _fenced_epoch(found: Situation) -> int:
    """The epoch that began with the fence, or when another physical cluster took the name. Raises
    CommandError if nothing that is bound there is over.
    """
    if found.lease and (epoch := over_below(found.lease)):
        return epoch
    where = _phase(found) or "Unknown"
    fedq = ((found.cluster or {}).get("status") or {}).get("fedq") or {}
    upcoming = f" Next: {fedq['next']}" if fedq.get("next") else ""
    todo = "Its agent renews its Lease: stop the cluster first, and wait for the phase Fenced."
    if where in AWAY:
        todo = f"Wait until the manager has fenced it.{upcoming} {fedq.get('nextAt') or ''}".strip()
    raise CommandError(
        f"cluster {found.name} is not fenced, so nothing there may be called dead",
        f"its phase is {where}: as long as its agent can renew the Lease, it may start jobs",
        f"{todo} `fedq get clusters {found.name}` shows it. To move jobs off a cluster that lives:"
        f" `fedq cluster drain {found.name} --now`.",
    )


def _question(found: Situation) -> str:
    return (
        f"{_jobs(len(found.jobs))} will run again elsewhere. What {found.name} still runs of them"
        " would run twice. Is it certain that nothing runs there?"
    )


def _still_bound(found: Situation) -> CommandError:
    names = ", ".join(f"{job.namespace}/{job.name}" for job in found.jobs[:5])
    more = f" and {len(found.jobs) - 5} more" if len(found.jobs) > 5 else ""
    away = _phase(found) in AWAY
    first = f"`fedq cluster drain {found.name} --now --wait` moves them."
    if away:
        first = "It is silent: they run elsewhere by themselves when the fence holds; wait."
    keeps = sum(job.waits for job in found.jobs)
    kept = ""
    if keeps:
        kept = (
            f" {_jobs(keeps)} with policy keep would wait until somebody confirms that nothing runs"
            " there: --dead says so in one go."
        )
    return CommandError(
        f"{_jobs(len(found.jobs))} still bound to cluster {found.name}",
        f"{names}{more}",
        f"{first} With --force the cluster is taken out with them on it: they run elsewhere only"
        f" when the fence holds, and lose what they did since their last checkpoint.{kept}",
        code=BAD_INPUT,
    )


def _only_by_force() -> CommandError:
    return CommandError(
        "--dead is about jobs that are bound to the cluster",
        "they are given up with --force only",
        "Give --force as well.",
        code=BAD_INPUT,
    )


def _phase(found: Situation) -> str:
    return phase(found.cluster) if found.cluster is not None else ""


# How it is done


def _run(kubeconfig: Path | None, context: str | None, work: Any) -> Situation:
    found: Situation = connect.run(connect.choose(kubeconfig, context), work)
    return found


async def _annotate(cluster: Cluster, name: str, notes: dict[Note, str | None]) -> None:
    values = {key.value: value for key, value in notes.items()}
    await cluster.client.patch(
        MULTIKUEUE_CLUSTERS, name, {"metadata": {"annotations": values}}, field_manager="fedq-cli"
    )


def _kept(found: Situation) -> str:
    """The reason that stands there already."""
    notes = (found.cluster or {"metadata": {}})["metadata"].get("annotations") or {}
    return str(notes.get(Note.CORDON.value, ""))
