"""`fedq drill`: break things on purpose and see that no job is lost and none runs twice."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fedq import connect
from fedq.commands.rigs import take_down
from fedq.connect import ContextOption, KubeconfigOption
from fedq.drill.cases.table import DRILLS, find
from fedq.drill.drill import Drill
from fedq.drill.lanes import run_all
from fedq.drill.picture import page
from fedq.drill.prepare import Bench, Wishes
from fedq.drill.real import REAL, refusal, run_real
from fedq.drill.report import as_json, as_text
from fedq.drill.result import Outcome
from fedq.errors import BAD_INPUT, FAILED, CommandError
from fedq.output import age, columns
from fedq.rig.cli import tell
from fedq.rig.paths import rig_home
from fedq.rig.rig import Rig

app = typer.Typer(
    help="Break things on purpose, on a rig of its own, and measure what becomes of the jobs.",
    epilog="Examples:  fedq drill list   |   fedq drill run worker-partition   |"
    "   fedq drill run --all --json --html drills.html",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Profile(StrEnum):
    """Timings of failover."""

    fast = "fast"
    default = "default"


class TierName(StrEnum):
    """Who makes sure that a job has stopped."""

    A = "A"
    B = "B"


class NetworkName(StrEnum):
    """What lies between the clusters."""

    namespaces = "namespaces"
    proxies = "proxies"


class RuntimeName(StrEnum):
    """Where the manager keeps its cluster workers."""

    ray = "ray"
    in_process = "in-process"


@app.command("list", epilog="Example:  fedq drill list")
def show() -> None:
    """Show all drills: number, name, the tier at which they pass, about how long they take."""
    rows = [(d.number, d.name, d.tier, d.profile, age(d.seconds), d.shows) for d in DRILLS]
    typer.echo(columns(("NO", "NAME", "TIER", "PROFILE", "TAKES", "SHOWS"), rows))


@app.command(
    epilog="Examples:  fedq drill run worker-partition   |   fedq drill run 3 4 --json   |"
    "   fedq drill run --all --html drills.html"
)
def run(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names or numbers, see `fedq drill list`.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All but peer-faults.")] = False,
    as_object: Annotated[
        bool, typer.Option("--json", help="Print one JSON object; progress goes to stderr.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a report with pictures to this file.")
    ] = None,
    profile: Annotated[
        Profile | None, typer.Option(help="Timings; default: as each drill says.")
    ] = None,
    tier: Annotated[
        TierName | None, typer.Option(help="A: agents; B: node guards too; default: as needed.")
    ] = None,
    endurance: Annotated[
        bool, typer.Option("--endurance", help="Faults last minutes to an hour.")
    ] = False,
    network: Annotated[
        NetworkName | None, typer.Option(help="Default: namespaces where this machine allows it.")
    ] = None,
    runtime: Annotated[RuntimeName, typer.Option(help="Runtime of the manager.")] = RuntimeName.ray,
    lanes: Annotated[
        int,
        typer.Option(
            max=8, help="Rigs on which drills run side by side; default: 2 with --all, else 1."
        ),
    ] = 0,
    jobs: Annotated[
        int, typer.Option(min=20, help="Jobs of half-lost, where a machine cannot hold 1,000.")
    ] = 1000,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the rig up afterwards.")] = False,
) -> None:
    """Run drills on a rig of their own; exit code 0 only if every one passed.

    Everything is taken down again, also after Ctrl-C or an error, unless --keep is given; a rig
    that was kept is used again.
    """
    drills = _chosen(names or [], every)
    wishes = Wishes(
        profile.value if profile else "",
        tier.value if tier else "",
        endurance,
        network.value if network else "",
        runtime.value,
        jobs,
    )
    with _rigs(min(lanes or (2 if every else 1), len(drills)), keep) as rigs:
        most = max(drill.workers for drill in drills)
        benches = [Bench(rig, wishes, tell, 2 if n else most) for n, rig in enumerate(rigs)]
        results = run_all(drills, benches, tell)
    if html is not None:
        html.write_text(page(results))
    typer.echo(as_json(results) if as_object else as_text(results))
    if any(result.outcome is not Outcome.PASSED for result in results):
        raise typer.Exit(FAILED)


@app.command(
    epilog="Examples:  fedq drill real manager-killed --context prod   |"
    "   fedq drill real cordon --cluster east --context prod --yes"
)
def real(
    name: Annotated[str, typer.Argument(help="manager-killed, agent-killed or cordon.")],
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    cluster: Annotated[str, typer.Option(help="The worker to cordon.", show_default=False)] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_object: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run a drill on a real cluster: only what happens to every installation now and then.

    The context is that of the management cluster, or of a worker for agent-killed.
    """
    if why := refusal(name):
        raise CommandError("this drill is for rigs", why, "fedq drill run", code=BAD_INPUT)
    if name == "cordon" and not cluster:
        raise CommandError("no worker is named", todo="Name one with --cluster.", code=BAD_INPUT)
    drill = next(drill for drill in REAL if drill.name == name)
    target = connect.choose(kubeconfig, context)
    if not yes:
        typer.confirm(f"{drill.shows}. Do it on {target.endpoint.server}?", abort=True, err=True)
    result = connect.run(target, lambda found: run_real(drill, found.client, cluster, tell))
    typer.echo(as_json([result]) if as_object else as_text([result]))
    if result.outcome is not Outcome.PASSED:
        raise typer.Exit(FAILED)


@contextmanager
def _rigs(count: int, keep: bool) -> Iterator[list[Rig]]:
    """Rigs of our own, taken down at the end; a second Ctrl-C does not stop that."""
    home = rig_home()
    rigs = [Rig.load(home.with_name(f"{home.name}-{n}") if n else home) for n in range(count)]
    for rig in rigs:
        if not rig.claim() and not (rig.home / "data" / "drill").exists():
            raise CommandError(
                f"a rig is up already in {rig.home}",
                "drills break what they find, and would break that",
                "Run `fedq rig down` first, or set FEDQ_RIG_HOME to a folder of its own.",
            )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield rigs
    finally:
        for rig in rigs:
            if keep:
                tell(f"the rig in {rig.home} is still up; `fedq rig down` takes it down")
            else:
                tell(f"taking down the rig in {rig.home}")
                with _uninterrupted():
                    take_down(rig)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _chosen(names: list[str], every: bool) -> list[Drill]:
    if every == bool(names):
        raise CommandError(
            "no drill is named" if not every else "there is no need to name drills beside --all",
            todo="Name some (`fedq drill list` shows them), or give --all alone.",
            code=BAD_INPUT,
        )
    if every:
        return [drill for drill in DRILLS if not drill.extra]
    chosen = []
    for name in names:
        if (drill := find(name)) is None:
            known = ", ".join(drill.name for drill in DRILLS)
            raise CommandError(f"there is no drill {name!r}", f"there are {known}", code=BAD_INPUT)
        chosen.append(drill)
    return chosen
