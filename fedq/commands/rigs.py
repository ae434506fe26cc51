"""`fedq rig`: control planes on this machine with Fedq running on them."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Annotated

import typer

from fedq.errors import CommandError
from fedq.manifests import read_text
from fedq.rig import cli as planes
from fedq.rig import controllers
from fedq.rig.binaries import find_or_build
from fedq.rig.errors import RigError
from fedq.rig.operators import CONTROLLERS, KUEUES
from fedq.rig.rig import Rig
from fedq.rig.tools import LOCAL_TOOLS
from fedq.stack import Stack

app = typer.Typer(
    help="Real Kubernetes control planes on this machine with Fedq on them: one management"
    " cluster, N workers.",
    epilog="Examples:  fedq rig up --workers 2   |   fedq rig status   |   fedq rig down",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.registered_commands += [
    command
    for command in planes.app.registered_commands
    if command.callback in (planes.status, planes.kubeconfig)
]

NEXT = """Fedq runs on the rig. Next:
  fedq rig apply examples/queues.yaml
  fedq submit examples/job.yaml --wait
  fedq get clusters
  fedq rig down"""
NEXT_VGPU = NEXT.replace("queues.yaml", "vgpu-queues.yaml").replace(
    "job.yaml --wait", "vgpu.yaml\n  fedq gpus"
)


@app.command(
    epilog="Examples:  fedq rig up --workers 2   |   fedq rig up --vgpu   |"
    "   fedq rig up --control-planes-only   |   fedq rig up --backend kind"
)
def up(
    workers: Annotated[int, typer.Option(min=0, max=32, help="Worker clusters.")] = 2,
    nodes: Annotated[int, typer.Option(min=0, max=5000, help="GPU nodes of each worker.")] = 4,
    management_nodes: Annotated[
        int,
        typer.Option(min=0, max=5000, help="Nodes of the management cluster, to run Jobs, too."),
    ] = 0,
    backend: Annotated[
        planes.BackendName | None,
        typer.Option(help="local: plain processes (default); kind: needs Docker and kind."),
    ] = None,
    vgpu: Annotated[
        bool,
        typer.Option("--vgpu", help="Cards can be shared, as HAMi's device plugin shows them."),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="Kueue's Configuration, for manager and agents."
        ),
    ] = None,
    control_planes_only: Annotated[
        bool, typer.Option("--control-planes-only", help="Do not install and start Fedq.")
    ] = False,
) -> None:
    """Bring the rig up, add what is missing, repair what died. Changes nothing when all is well.

    Missing programs are built with Go once per user (some minutes), with time left shown.
    """
    planes.up(workers, nodes, management_nodes, backend, vgpu)
    if control_planes_only:
        return
    started = time.monotonic()
    stack = Stack(Rig.load())
    planes.tell("installing CRDs, policies and roles")
    stack.install()
    planes.tell("starting Redis, agents and manager")
    stack.start(config=config)
    planes.tell(f"Fedq: ready ({time.monotonic() - started:.1f} s)\n{NEXT_VGPU if vgpu else NEXT}")


@app.command(epilog="Example:  fedq rig down")
def down() -> None:
    """End every process of the rig and remove its files. Built programs stay in the cache."""
    rig = Rig.load()
    there = rig.home.exists()
    take_down(rig)
    planes.tell(f"{'the rig is down' if there else 'no rig was up'}: {rig.home}")


def take_down(rig: Rig) -> None:
    """Stop Fedq and the control planes and remove their files; fine when nothing is there."""
    with contextlib.suppress(RigError):  # a broken state file must not keep the rest up
        Stack(rig).stop()
    rig.down()


@app.command(
    epilog="Examples:  fedq rig apply examples/queues.yaml   |"
    "   fedq rig apply quota.yaml --on worker-1"
)
def apply(
    file: Annotated[str, typer.Argument(help="YAML or JSON; - is stdin.")],
    on: Annotated[
        list[str] | None,
        typer.Option("--on", help="Cluster, may be repeated; default: all.", show_default=False),
    ] = None,
) -> None:
    """Apply objects on the clusters of the rig: queues are needed on every one of them."""
    _, text = read_text(file)
    rig = Rig.load()
    if not rig.clusters:
        raise CommandError("no rig is up", todo="Run `fedq rig up --workers 2` first.")
    for cluster in on or rig.clusters:
        said = rig.kubectl(cluster, "apply", "--server-side", "-f", "-", input=text)
        for line in said.splitlines():
            typer.echo(f"{cluster}: {line}")


@app.command(
    epilog="Examples:  fedq rig binaries   |   fedq rig binaries --kind   |"
    "   fedq rig binaries --controllers"
)
def binaries(
    kind: Annotated[bool, typer.Option("--kind", help="The program kind as well.")] = False,
    with_kueue: Annotated[
        bool, typer.Option("--kueue", help="Only Kueue's manager, for workers without an agent.")
    ] = False,
    with_controllers: Annotated[
        bool,
        typer.Option(
            "--controllers", help="Only those of other kinds (JobSet, Ray, Kubeflow, …), for tests."
        ),
    ] = False,
) -> None:
    """Find the programs of the control planes, or build what is missing; print their paths."""
    for controller in (*(CONTROLLERS if with_controllers else ()), *(KUEUES if with_kueue else ())):
        typer.echo(f"{controller.name:<24} {controllers.program(controller, planes.tell)}")
    if with_kueue or with_controllers:
        return
    tools = [*LOCAL_TOOLS, *(["kind"] if kind else [])]
    for tool, path in find_or_build(tools, planes.tell).items():
        typer.echo(f"{tool:<24} {path}")
