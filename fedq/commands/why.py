"""`fedq why NAME`: one paragraph about one job."""

from __future__ import annotations

import shutil
import sys
import textwrap
from dataclasses import asdict
from typing import Annotated

import typer

from fedq import completion, connect
from fedq.connect import Cluster, ContextOption, KubeconfigOption, NamespaceOption
from fedq.investigating import investigate
from fedq.output import Output, dump, wire
from fedq.story import Facts, tell


def why(
    name: completion.JobArgument,
    namespace: NamespaceOption = "",
    output: Annotated[
        Output, typer.Option("-o", "--output", help="table is the paragraph.")
    ] = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Say where a job is, since when, what it waits for with numbers, and what would change it."""

    async def read(cluster: Cluster) -> Facts:
        return await investigate(cluster, name, namespace or cluster.namespace)

    facts = connect.run(connect.choose(kubeconfig, context), read)
    story = tell(facts)
    if output is Output.table:
        typer.echo(_wrapped(f"{story.text} {story.advice}"))
        return
    data = wire(facts)
    del data["now"]
    data["clusterQueue"] = data.pop("queue")  # `queue` is the LocalQueue, as in `fedq get jobs`
    typer.echo(dump({**data.pop("view"), **data, **asdict(story)}, output))


def _wrapped(text: str) -> str:
    """As wide as the terminal; one line where it is no terminal, for grep."""
    if not sys.stdout.isatty():
        return text
    width = min(100, shutil.get_terminal_size().columns)
    return textwrap.fill(text, width, break_on_hyphens=False, break_long_words=False)
