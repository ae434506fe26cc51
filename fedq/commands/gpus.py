"""`fedq gpus [NODE]`: every card as a bar of slices, with who holds them."""

from __future__ import annotations

import asyncio
import shutil
import sys
from typing import Annotated

import typer

from federation.edge.errors import ApiError, Forbidden
from fedq import connect, members
from fedq.cardbook import CardBook, read_cards
from fedq.connect import Cluster, ContextOption, KubeconfigOption
from fedq.errors import FAILED, CommandError
from fedq.gpubars import draw, safe
from fedq.gpuview import NodeView
from fedq.members import Member
from fedq.output import Output, OutputOption, dump


def gpus(
    node: Annotated[str, typer.Argument(help="Only this node.", show_default=False)] = "",
    clusters: Annotated[
        list[str] | None,
        typer.Option("--cluster", help="Only this worker cluster; may be given more than once."),
    ] = None,
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Show the cards of a cluster, or of all worker clusters: what is used of them, and by whom."""

    async def read(cluster: Cluster) -> list[tuple[Member, CardBook | ApiError]]:
        found = await members.of(cluster, clusters or [])
        books = await asyncio.gather(*(_book(member) for member in found))
        return list(zip(found, books, strict=True))

    results = connect.run(connect.choose(kubeconfig, context), read)
    nodes: list[NodeView] = []
    for member, book in results:
        if isinstance(book, ApiError):
            typer.echo(_unread(member, book), err=True)
            continue
        if book.problem:
            typer.echo(safe(f"{member.name} {book.problem}".lstrip()), err=True)
        nodes += [view for view in book.views(member.name) if node in ("", view.name)]
    _print(nodes, node, output)
    if any(isinstance(book, ApiError) for _, book in results):
        raise typer.Exit(FAILED)


async def _book(member: Member) -> CardBook | ApiError:
    try:
        async with member.client() as client:
            return await read_cards(client)
    except ApiError as error:
        return error


def _unread(member: Member, error: ApiError) -> str:
    where = f"cluster {safe(member.name)}" if member.name else "the cluster"
    why = safe(" ".join(str(error).split()))
    hint = ""
    if member.name and isinstance(error, Forbidden):
        hint = (
            f": the manager's access does not reach nodes and pods; name a context of your own"
            f" kubeconfig {safe(member.name)}, or use --context"
        )
    return f"{where} could not be read: {why}{hint}"


def _print(nodes: list[NodeView], node: str, output: Output) -> None:
    if output is not Output.table:
        typer.echo(dump(nodes, output))
    elif nodes:
        tty = sys.stdout.isatty()
        typer.echo(draw(nodes, shutil.get_terminal_size().columns if tty else None))
    elif node:
        raise CommandError(f"there is no node {node} with cards", todo="`fedq gpus` shows all.")
    else:
        typer.echo("no node registers cards, or has any as capacity", err=True)
