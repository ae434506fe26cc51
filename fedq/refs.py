"""How people name jobs of every kind.

KIND/NAME is an object, NAME alone a batch/v1 Job, else the one object of another kind that has it.
A kind is written as kubectl takes it: jobset, jobsets, jobset.jobset.x-k8s.io, or as `fedq get
kinds -o json` names it. Kinds that a configuration adds are known where FEDQ_CONFIG names its file.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from federation.api.kinds.row import framework
from federation.core.facts import BATCH_JOB
from federation.edge.configuration_file import ConfigurationFileError, configured_kinds
from federation.jobs.kinds.kind import JobKind, Kinds
from federation.jobs.kinds.registry import KINDS
from fedq.errors import BAD_INPUT, CommandError

Json = dict[str, Any]

CONFIG: Final = "FEDQ_CONFIG"
SWITCH_ON: Final = "Name it there, for the manager, and restart that."
DEPLOYMENT: Final = ("deployment", "deployments", "deployment.apps", "deployments.apps")


class Found(NamedTuple):
    """An object and its kind."""

    kind: JobKind
    body: Json

    @property
    def uid(self) -> str:
        """By which its Workload is known."""
        return str(self.body["metadata"]["uid"])


class Ref(NamedTuple):
    """How a person names a job; without a kind it may be of any."""

    kind: JobKind | None
    name: str


def known_kinds() -> Kinds:
    """All kinds that commands know. Raises CommandError."""
    return _kinds(os.environ.get(CONFIG, ""))


@cache
def _kinds(file: str) -> Kinds:
    try:
        return configured_kinds(Path(file) if file else None)
    except ConfigurationFileError as error:
        raise CommandError(f"{CONFIG} cannot be used", str(error), code=BAD_INPUT) from error


def switched_off(kind: JobKind) -> str:
    """What to say of a kind that the configuration switches off."""
    return (
        f"{kind.kind} ({kind.api_version}) is switched off: integrations.frameworks of the"
        f" Configuration does not name {framework(kind.group, kind.kind)}, so nobody queues it"
    )


def word(kind: JobKind) -> str:
    """A kind as people write it: in small letters, with its group where another one has the name
    without it.
    """
    short = kind.kind.lower()
    first = next((known.name for known in KINDS if known.kind.lower() == short), kind.name)
    return short if first == kind.name else f"{short}.{kind.group}"


def shown(kind: JobKind, name: str) -> str:
    """What to write for an object: a Job needs its name only."""
    return name if kind.name == BATCH_JOB else f"{word(kind)}/{name}"


def read_ref(text: str) -> Ref:
    """Raises CommandError for a kind that is none."""
    head, slash, name = text.rpartition("/")
    if not slash:
        return Ref(None, text)
    if not name or not head:
        raise CommandError(
            f"{text!r} names no job", todo="Write NAME, or KIND/NAME.", code=BAD_INPUT
        )
    return Ref(_kind(head), name)


def _kind(text: str) -> JobKind:
    wanted, known = text.lower(), known_kinds()
    for kind in known.complete:
        forms = (kind.kind.lower(), kind.plural)
        if wanted in {*forms, *(f"{form}.{kind.group}" for form in forms), kind.name.lower()}:
            if kind.name not in known:
                raise CommandError(switched_off(kind), todo=SWITCH_ON, code=BAD_INPUT)
            return kind
    if wanted in DEPLOYMENT:
        raise CommandError(
            "a Deployment is no job: its pods are queued one by one",
            todo="`fedq get jobs` lists them, as pod/NAME.",
            code=BAD_INPUT,
        )
    raise CommandError(
        f"there is no kind {text}", todo="`fedq get kinds` lists those that there are.",
        code=BAD_INPUT,
    )  # fmt: skip


def never_ends(kind: JobKind) -> bool:
    """Whether objects of a kind run until they are deleted."""
    row = getattr(kind, "row", None)
    return row is not None and not row.complete and not row.failed
