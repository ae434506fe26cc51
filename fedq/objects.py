"""Finding jobs of every kind on the management cluster, or on a worker.

Kinds whose CRD is not served are left out of lists, and named where one was asked for.
"""

from __future__ import annotations

import asyncio
from typing import Any

from federation.core.facts import BATCH_JOB
from federation.edge.errors import Forbidden, NotFound
from federation.edge.kind_informers import plurals, served, served_versions
from federation.edge.kind_objects import PartOfAnother, listed, named
from federation.edge.kube import KubeClient
from federation.jobs.kinds.kind import JobKind, Kinds
from fedq.errors import BAD_INPUT, CommandError
from fedq.kind_checks import queue_of
from fedq.refs import Found, known_kinds, read_ref, shown, word

Json = dict[str, Any]


async def all_objects(client: KubeClient, namespace: str | None) -> list[Found]:
    """Jobs of all kinds that this cluster serves and the person may list, those of batch/v1 first.
    None is all namespaces.
    """
    kinds = known_kinds()
    jobs, others = await asyncio.gather(
        listed(client, kinds[BATCH_JOB], namespace), _others(client, kinds, namespace)
    )
    return [*(Found(kinds[BATCH_JOB], job) for job in jobs), *others]


async def _others(client: KubeClient, kinds: Kinds, namespace: str | None) -> list[Found]:
    answers = await asyncio.gather(
        *(_of_kind(client, kind, namespace) for kind in await _served(client, kinds))
    )
    return [found for answer in answers for found in answer]


async def _of_kind(client: KubeClient, kind: JobKind, namespace: str | None) -> list[Found]:
    try:
        return [Found(kind, obj) for obj in await listed(client, kind, namespace)]
    except (Forbidden, NotFound):  # its CRD may have gone since
        return []


async def _served(client: KubeClient, kinds: Kinds) -> list[JobKind]:
    """The kinds beside batch/v1 Job that the cluster serves."""
    others = [kind for kind in kinds if kind.name != BATCH_JOB]
    try:
        there = await served_versions(client) | {("", "v1")}
        groups = sorted({(kind.group, kind.version) for kind in others} & there)
        answers = await asyncio.gather(*(plurals(client, *group) for group in groups))
    except Forbidden:  # discovery may be forbidden
        return []
    known = dict(zip(groups, answers, strict=True))
    return [kind for kind in others if kind.plural in known.get((kind.group, kind.version), ())]


async def find(client: KubeClient, text: str, namespace: str) -> Found:
    """The job that a person names. Raises CommandError: without one, and with several."""
    ref = read_ref(text)
    if ref.kind is not None:
        return await _find(client, ref.kind, ref.name, namespace)
    kinds = known_kinds()
    try:
        return await _find(client, kinds[BATCH_JOB], ref.name, namespace)
    except CommandError as none:
        found = await _of_name(client, kinds, ref.name, namespace)
        if not found:
            raise none from None
    if len(found) > 1:
        choices = ", ".join(shown(one.kind, one.body["metadata"]["name"]) for one in found)
        raise CommandError(
            f"{ref.name} may be any of {len(found)} jobs in namespace {namespace}",
            choices,
            "Name one of these.",
            code=BAD_INPUT,
        )
    return found[0]


async def _of_name(client: KubeClient, kinds: Kinds, name: str, namespace: str) -> list[Found]:
    """Those that name a queue, if there are any: others are not what this is about."""

    async def ask(kind: JobKind) -> Found | None:
        try:
            return Found(kind, await named(client, kind, name, namespace))
        except (NotFound, Forbidden):
            return None

    answers = await asyncio.gather(*map(ask, await _served(client, kinds)))
    there = [found for found in answers if found is not None]
    return [found for found in there if queue_of(found.body)] or there


async def _find(client: KubeClient, kind: JobKind, name: str, namespace: str) -> Found:
    try:
        return Found(kind, await named(client, kind, name, namespace))
    except PartOfAnother as error:
        raise CommandError(str(error)) from error
    except NotFound as error:
        if kind.name != BATCH_JOB and not await served(client, kind):
            raise not_served(kind) from error
        raise await _missing(client, kind, name, namespace) from error


def not_served(kind: JobKind) -> CommandError:
    """Of a kind without its CRD."""
    return CommandError(
        f"this cluster serves no {kind.kind} ({kind.api_version})",
        "its CRD is not installed",
        "Install it on the management cluster and on the workers; `fedq get kinds` shows what is"
        " served.",
    )


async def _missing(client: KubeClient, kind: JobKind, name: str, namespace: str) -> CommandError:
    try:
        everywhere = await listed(client, kind, None)
    except (Forbidden, NotFound):
        everywhere = []
    spaces = sorted({space for space, one in map(_key, everywhere) if one == name})
    todo = f"There is one in {', '.join(spaces)}: use -n {spaces[0]}." if spaces else ""
    return CommandError(
        f"there is no {word(kind)} {name} in namespace {namespace}",
        todo=todo or "`fedq get jobs` shows what there is.",
    )


def _key(obj: Json) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]
