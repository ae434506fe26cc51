"""`fedq logs JOB` and `fedq events JOB`: read through to the cluster where the job runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from federation.edge.run_reader import LogOptions, RunMissing, event_time
from federation.jobs.pod_text import clean, for_terminal
from fedq import completion, connect, runs
from fedq.connect import Cluster, ContextOption, KubeconfigOption, NamespaceOption
from fedq.errors import BAD_INPUT, CommandError
from fedq.logs import Telling, Wanted, tell_logs
from fedq.output import Output, OutputOption, columns, dump, since

Json = dict[str, Any]

ManagerOption = Annotated[
    str,
    typer.Option(
        "--manager",
        envvar="FEDQ_MANAGER",
        help="URL of the manager that reads for you; without it the worker cluster is read with its"
        " kubeconfig, if you may see that.",
    ),
]
ManagerCaOption = Annotated[
    Path | None,
    typer.Option(
        "--manager-ca",
        envvar="FEDQ_MANAGER_CA",
        help="CA of the manager's certificate (PEM); default: that of the management cluster.",
        show_default=False,
    ),
]
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def logs(
    name: completion.JobArgument,
    container: Annotated[str, typer.Option("-c", "--container", help="Only this one.")] = "",
    pod: Annotated[str, typer.Option("--pod", help="Only this pod; default: all of them.")] = "",
    all_containers: Annotated[
        bool, typer.Option("--all-containers", help="All containers of each pod.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="As it comes, until the job has ended.")
    ] = False,
    previous: Annotated[
        bool, typer.Option("-p", "--previous", help="Of the container before its last restart.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option(min=0, help="Only so many last lines of each.", show_default=False)
    ] = None,
    newer: Annotated[
        str, typer.Option("--since", help="Only what is newer: 30s, 5m, 2h.", show_default=False)
    ] = "",
    timestamps: Annotated[bool, typer.Option("--timestamps", help="With times.")] = False,
    namespace: NamespaceOption = "",
    manager: ManagerOption = "",
    manager_ca: ManagerCaOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Logs of a job's pods, on whatever cluster they run.

    Where and in which attempt is told on standard error. Of several pods each line says whose it
    is. Logs of attempts before a move went with their pods.
    """
    options = LogOptions(container, follow, previous, tail, _seconds(newer), timestamps)
    wanted = Wanted(pod, all_containers, options)
    telling = Telling(_write, lambda text: typer.echo(clean(text, 2000), err=True))
    run = _Run(name, namespace, runs.Manager(manager, manager_ca))
    _reading(connect.choose(kubeconfig, context), run, lambda r: tell_logs(r, wanted, telling))
    if not telling.count and not follow:
        typer.echo("there are no lines", err=True)


def events(
    name: completion.JobArgument,
    output: OutputOption = Output.table,
    namespace: NamespaceOption = "",
    manager: ManagerOption = "",
    manager_ca: ManagerCaOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Events of a job's copy and its pods, on whatever cluster they are."""
    found: list[Json] = []

    async def read(reader: runs.Reader) -> None:
        found.extend(await reader.events())
        typer.echo(str(reader.run), err=True)

    run = _Run(name, namespace, runs.Manager(manager, manager_ca))
    _reading(connect.choose(kubeconfig, context), run, read)
    if output is not Output.table:
        typer.echo(dump([_plain(event) for event in found], output))
        return
    headings = ("AGE", "TYPE", "REASON", "OBJECT", "TIMES", "MESSAGE")
    typer.echo(columns(headings, [_row(event) for event in found]) if found else "no events")


class _Run(NamedTuple):
    """Whose run is read, and by whom. Without a namespace it is that of the context."""

    name: str
    namespace: str
    manager: runs.Manager


def _reading(
    target: connect.Target, run: _Run, read: Callable[[runs.Reader], Awaitable[None]]
) -> None:
    async def work(cluster: Cluster) -> None:
        space = run.namespace or cluster.namespace
        async with runs.reader(cluster, target.endpoint, space, run.name, run.manager) as reader:
            await read(reader)

    try:
        connect.run(target, work)
    except RunMissing as missing:
        raise CommandError("there is nothing to read", str(missing)) from missing


def _write(line: bytes) -> None:
    """As it is into files and pipes; a terminal would obey what other people's pods write."""
    if _is_terminal():
        line = for_terminal(line)
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _seconds(text: str) -> int | None:
    if not text:
        return None
    found = re.fullmatch(r"(\d{1,8})([smhd]?)", text)
    if found is None:
        raise CommandError(
            f"--since {text!r} is no time", "it takes a number and s, m, h or d", code=BAD_INPUT
        )
    return max(1, int(found[1]) * _UNITS[found[2]])


def _plain(event: Json) -> Json:
    about = event.get("involvedObject") or {}
    return {
        "time": event_time(event),
        "type": clean(event.get("type") or "", 32),
        "reason": clean(event.get("reason") or "", 128),
        "object": clean(f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}", 300),
        "count": int((event.get("series") or {}).get("count") or event.get("count") or 1),
        "message": clean(event.get("message") or event.get("note") or "", 1024),
    }


def _row(event: Json) -> tuple[object, ...]:
    told = _plain(event)
    return (_age(told["time"]), told["type"], told["reason"], told["object"], told["count"],
            told["message"])  # fmt: skip


def _age(moment: str) -> str:
    try:
        datetime.fromisoformat(moment)
    except ValueError:
        return "-"
    return since(moment)
