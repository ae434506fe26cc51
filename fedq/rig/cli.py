"""`fedq rig`: real control planes on this machine, up and down by one command each."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from fedq.rig.errors import RigError
from fedq.rig.rig import Rig
from fedq.rig.status import ComponentStatus, RigStatus

app = typer.Typer(
    help="Real Kubernetes control planes on this machine: one management cluster, N workers.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class BackendName(StrEnum):
    """What the clusters are made of."""

    local = "local"
    kind = "kind"


class Output(StrEnum):
    """How a command prints its result."""

    table = "table"
    json = "json"


@contextmanager
def explained() -> Iterator[None]:
    """Turn a RigError into its text on standard error and exit code 1."""
    try:
        yield
    except RigError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error


def tell(message: str) -> None:
    """Progress goes to standard error: standard output stays clean for -o json."""
    typer.echo(message, err=True)


@app.command(
    epilog="Examples:  fedq rig up --workers 2   |   fedq rig up --workers 3 --nodes 8   |"
    "   fedq rig up --backend kind"
)
def up(
    workers: Annotated[int, typer.Option(min=0, max=32, help="Worker clusters.")] = 2,
    nodes: Annotated[int, typer.Option(min=0, max=5000, help="GPU nodes of each worker.")] = 4,
    management_nodes: Annotated[
        int,
        typer.Option(min=0, max=5000, help="Nodes of the management cluster, to run Jobs."),
    ] = 0,
    backend: Annotated[
        BackendName | None,
        typer.Option(help="local: plain processes (default); kind: needs Docker and kind."),
    ] = None,
    vgpu: Annotated[
        bool,
        typer.Option("--vgpu", help="Cards can be shared, as HAMi's device plugin shows them."),
    ] = False,
) -> None:
    """Bring the rig up, add what is missing, repair what died. Changes nothing when all is well.

    Missing programs are built with Go once per user (some minutes), with time left shown.
    """
    with explained():
        started = time.monotonic()
        rig = Rig.load(backend=backend.value if backend else None)
        rig.up(workers, nodes=nodes, management_nodes=management_nodes, shared=vgpu, progress=tell)
        tell(f"up: {', '.join(rig.clusters)} ({time.monotonic() - started:.1f} s)")
        if len(rig.workers) > workers:
            tell(
                f"the rig has {len(rig.workers)} workers: `fedq rig down` is what removes clusters"
            )


@app.command(epilog="Examples:  fedq rig status   |   fedq rig status -o json")
def status(
    output: Annotated[Output, typer.Option("-o", "--output", help="Format.")] = Output.table,
) -> None:
    """Show clusters, components and other processes: pid, state, memory, API address."""
    with explained():
        current = Rig.load().status()
    if output is Output.json:
        typer.echo(json.dumps(current.as_dict(), indent=2))
    elif not current.clusters:
        typer.echo(f"no rig in {current.home}; `fedq rig up --workers 2` starts one")
    else:
        Console().print(_table(current))


@app.command(epilog="Example:  fedq rig down")
def down() -> None:
    """End every process of the rig and remove its files. Built programs stay in the cache."""
    with explained():
        Rig.load().down()


@app.command(
    epilog="Examples:  export KUBECONFIG=$(fedq rig kubeconfig worker-1)   |"
    "   fedq rig kubeconfig management --user kube-scheduler"
)
def kubeconfig(
    name: Annotated[str, typer.Argument(help="Cluster: management, worker-1, …")],
    user: Annotated[str, typer.Option(help="Whose identity.")] = "admin",
) -> None:
    """Print the path of a cluster's kubeconfig; certificates are inline, so it can be copied."""
    with explained():
        typer.echo(Rig.load().kubeconfig(name, user))


def _table(current: RigStatus) -> Table:
    table = Table(caption=f"{current.backend} rig in {current.home}, {current.memory_mb:.0f} MiB")
    for heading in ("CLUSTER", "COMPONENT", "PID", "STATE", "MIB", "API"):
        side: Literal["left", "right"] = "right" if heading in ("PID", "MIB") else "left"
        # Folded, not cut: an address must be there to copy on a narrow terminal too.
        table.add_column(heading, justify=side, overflow="fold")
    for name, cluster in current.clusters.items():
        url = cluster.api_url
        if not cluster.components:
            table.add_row(name, "in its container", "-", "-", "-", url)
        for component, state in cluster.components.items():
            table.add_row(name, component, *_cells(state), url)
            name = url = ""
    beside = "beside them"
    for name, state in current.processes.items():
        table.add_row(beside, name, *_cells(state), "")
        beside = ""
    return table


def _cells(state: ComponentStatus) -> tuple[str, str, str]:
    word = "running" if state.running else ("dead" if state.pid else "not started")
    return str(state.pid or "-"), word, f"{state.memory_mb:.0f}"
