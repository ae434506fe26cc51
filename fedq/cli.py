"""The command `fedq`, also reachable as `kubectl fedq`."""

from __future__ import annotations

import logging
from importlib.metadata import version
from typing import Annotated, Any

import structlog
import typer
from typer.core import TyperGroup

from fedq.commands import cluster, demo, drill, get, gpus, lint, logs, move, rigs, submit, why
from fedq.errors import explained


class Explaining(TyperGroup):
    """Runs a command so that no mistake of a person ends in a traceback."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """See the base class: installing completion writes files already here."""
        with explained():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """See the base class."""
        with explained():
            return super().invoke(ctx)


app = typer.Typer(
    cls=Explaining,
    help="A multi-cluster batch queue for Kubernetes: submit here, run where there is room.",
    epilog="Start with:  fedq demo   |   fedq rig up   |   fedq submit job.yaml --wait",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(
    epilog="Examples:  fedq submit job.yaml   |   fedq submit job.yaml --wait --timeout 600   |"
    "   cat jobs.yaml | fedq submit - -n team"
)(submit.submit)
app.add_typer(get.app, name="get")
app.command(
    epilog="Examples:  fedq why train   |   fedq why train -n team   |   fedq why train -o json"
)(why.why)
app.command(
    epilog="Examples:  fedq logs train -f   |   fedq logs train --pod train-x7k2p -c main --tail 50"
)(logs.logs)
app.command(epilog="Examples:  fedq events train   |   fedq events train -o json")(logs.events)
app.command(
    epilog="Examples:  fedq gpus   |   fedq gpus --cluster east   |   fedq gpus NODE -o json"
)(gpus.gpus)
app.command(
    epilog="Examples:  fedq lint -f job.yaml   |   fedq lint -f queues/ --against prod   |"
    "   fedq lint -f - --ignore lends-all"
)(lint.lint)
app.command(
    epilog="Examples:  fedq demo   |   fedq demo --jobs 40 --workers 3   |   fedq demo --json   |"
    "   fedq demo --keep"
)(demo.demo)
app.add_typer(drill.app, name="drill")
app.add_typer(cluster.app, name="cluster")
app.command(
    epilog="Examples:  fedq move train --to east   |   fedq move train --to east --dry-run   |"
    "   fedq move train --cancel"
)(move.move)
app.add_typer(rigs.app, name="rig")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedq {version('fedq')}")
        raise typer.Exit


@app.callback()
def _common(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    # The watches' own log is for programs; people are told by the commands.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def main() -> None:
    """Entry point of `fedq` and `kubectl-fedq`."""
    app()
