"""`fedq drill`: break things on purpose and see that no job is lost and none runs twice."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from fedq import connect
from fedq.commands.rigs import take_down
from fedq.connect import ContextOption, KubeconfigOption
from fedq.drill.cases.table import DRILLS, find
from fedq.drill.drill import Drill
from fedq.drill.lanes import run_all
from fedq.drill.picture import page
from fedq.drill.prepare import Bench, Wishes
from fedq.drill.real import REAL, foresee, refusal, run_real
from fedq.drill.report import as_json, as_text
from fedq.drill.result import Outcome, Result
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
        int | None,
        typer.Option(
            min=1,
            max=8,
            help="Rigs on which drills run side by side; default: 2 with --all, else 1.",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=20, help="Jobs of half-lost, where a machine cannot hold 1,000.")
    ] = 1000,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the rig up afterwards.")] = False,
) -> None:
    """Run drills on a rig of their own; exit code 0 only if every one passed. For a real cluster
    there is `fedq drill real`.

    Everything is taken down again, also after Ctrl-C or an error, unless --keep is given; a rig
    that was kept is used again.
    """
    drills = _chosen(names or [], every)
    if html is not None:
        _see_writable(html)
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
    _tell_results(results, html, as_object=as_object)


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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")
    ] = False,
    as_object: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a report to this file.")
    ] = None,
) -> None:
    """Run a drill on a real cluster: only what happens to every installation now and then.

    The context is that of the management cluster, or of a worker for agent-killed. What runs is
    judged by its pods on the worker clusters: by a context of yours that is called as the cluster
    is, or else with the kubeconfig that the manager uses.
    """
    if why := refusal(name):
        raise CommandError("this drill is for rigs", why, "fedq drill run", code=BAD_INPUT)
    if name == "cordon" and not cluster:
        raise CommandError("no worker is named", todo="Name one with --cluster.", code=BAD_INPUT)
    drill = next(drill for drill in REAL if drill.name == name)
    if html is not None:
        _see_writable(html)
    target = connect.choose(kubeconfig, context)
    if dry_run:
        lines = connect.run(target, lambda found: foresee(drill, found, cluster))
        typer.echo(f"on {target.endpoint.server} this would")
        for line in lines:
            typer.echo(f"  {line}")
        return
    if not yes:
        typer.confirm(f"{drill.shows}. Do it on {target.endpoint.server}?", abort=True, err=True)
    with _ends_as_by_ctrl_c():
        result = connect.run(target, lambda found: run_real(drill, found, cluster, tell))
    _tell_results([result], html, as_object=as_object)


def _see_writable(html: Path) -> None:
    """Refuse a report that could not be written when the drills have run."""
    new = not html.exists()
    try:
        with html.open("a"):
            pass
    except OSError as error:
        raise CommandError(
            f"the report cannot be written to {html}",
            error.strerror or str(error),
            "Give --html a file in a folder that is there and that you may write to.",
            code=BAD_INPUT,
        ) from error
    if new:
        html.unlink()


def _tell_results(results: list[Result], html: Path | None, *, as_object: bool) -> None:
    """Print them, then write the report: what cannot be written then loses no result."""
    typer.echo(as_json(results) if as_object else as_text(results))
    if html is not None:
        html.write_text(page(results))
    if any(result.outcome is not Outcome.PASSED for result in results):
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
    with _ends_as_by_ctrl_c():
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


def _ends_as_by_ctrl_c() -> AbstractContextManager[None]:
    """SIGTERM, and a terminal that is closed, end the block in a way that mends what it broke."""
    return _handled(signal.default_int_handler, signal.SIGTERM, signal.SIGHUP)


def _uninterrupted() -> AbstractContextManager[None]:
    return _handled(signal.SIG_IGN, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def _handled(handler: Any, *numbers: signal.Signals) -> Iterator[None]:
    """What is ignored, as SIGHUP under nohup, is left alone."""
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in heard}
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
            raise CommandError(
                f"there is no drill {name!r}",
                f"there are {known}",
                f"On a real cluster: `fedq drill real {name}`." if not refusal(name) else "",
                code=BAD_INPUT,
            )
        chosen.append(drill)
    return chosen
