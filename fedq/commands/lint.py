"""`fedq lint -f FILE…`: mistakes in manifests, before anything is applied."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from federation.api.problems import suggest
from federation.edge.errors import ApiError
from fedq import connect, output
from fedq.connect import Cluster, KubeconfigOption
from fedq.errors import BAD_INPUT, CommandError, from_api
from fedq.lint import engine, report
from fedq.lint.cluster import ClusterThings, look
from fedq.lint.collect import collect


class Format(StrEnum):
    """Formats of -o."""

    text = "text"
    json = "json"


def lint(
    files: Annotated[
        list[str],
        typer.Option(
            "-f", "--filename", help="File or folder (YAML, JSON); - is stdin. Repeatable."
        ),
    ],
    against: Annotated[
        str | None,
        typer.Option(
            help="Context of the cluster that they are for: names and nodes are looked up there.",
            show_default=False,
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(help="Id of a rule to be silent. Repeatable.", show_default=False),
    ] = None,
    form: Annotated[Format, typer.Option("-o", "--output", help="Format.")] = Format.text,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Find what is wrong, or will surprise, in manifests of queues and jobs.

    Exit code: 0 clean, 1 warnings, 2 something would be refused. docs/lint.md explains each rule.
    """
    ignored = frozenset(ignore or ())
    _check_ids(ignored)
    found = collect(files)
    cluster = None if against is None else _cluster(kubeconfig, against)
    lines = engine.lint(found, cluster, ignored)
    if form is Format.json:
        counted = report.data(lines, found.objects, len(found.files))
        typer.echo(output.dump(counted, output.Output.json))
    else:
        typer.echo(report.text(lines, found.objects, len(found.files)))
    if code := report.exit_code(lines):
        raise typer.Exit(code)


def _cluster(kubeconfig: Path | None, context: str) -> ClusterThings:
    """The objects of a cluster. An error must not pass for exit code 1, which means warnings."""
    try:
        found = connect.run(connect.choose(kubeconfig, context), _look)
    except ApiError as error:
        known = from_api(error)
        raise CommandError(known.what, known.why, known.todo, code=BAD_INPUT) from error
    except CommandError as error:
        raise CommandError(error.what, error.why, error.todo, code=BAD_INPUT) from error
    for kind, reason in found.unread.items():
        typer.echo(f"note: no {kind} was looked up: {reason}", err=True)
    return found


async def _look(cluster: Cluster) -> ClusterThings:
    return await look(cluster.client)


def _check_ids(ignored: frozenset[str]) -> None:
    known = [rule.id for rule in engine.RULES]
    for id in sorted(ignored - set(known)):
        raise CommandError(
            f"there is no rule {id}{suggest(id, known)}",
            todo="The ids stand at the end of each line, and in docs/lint.md.",
            code=BAD_INPUT,
        )
