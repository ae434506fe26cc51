"""Reading what a person submits: all of it is checked before anything is sent.

Every problem of a file is told at once, each with file and line; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from federation.api.spelling import normalize
from federation.edge.documents import Document, documents
from federation.edge.resources import Resource
from federation.jobs.kinds.kind import JobKind
from federation.jobs.kinds.pod_groups import group_of
from fedq.errors import BAD_INPUT, CommandError
from fedq.kind_checks import check_group, held, queue_of
from fedq.kinds import DEPLOYMENTS, job_kind, resource_of
from fedq.manifest_checks import check_fields, check_name
from fedq.refs import word

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object to create. `where` is file:line of its document, `kind` that of a job; None of
    anything else.
    """

    body: Json
    resource: Resource
    where: str
    kind: JobKind | None = None

    @property
    def is_job(self) -> bool:
        """Whether it is a job of some kind, or makes pods that are."""
        return self.kind is not None or self.resource == DEPLOYMENTS

    @property
    def word(self) -> str:
        """Its kind as kubectl takes it."""
        return word(self.kind) if self.kind else str(self.body["kind"]).lower()

    @property
    def namespace(self) -> str:
        """Empty for cluster-scoped objects."""
        return str(self.body["metadata"].get("namespace", ""))

    @property
    def name(self) -> str:
        """Name, or the prefix of the name to be generated."""
        meta = self.body["metadata"]
        return str(meta.get("name") or meta.get("generateName"))

    def __str__(self) -> str:
        prefix = f"{self.namespace}/" if self.namespace else ""
        return f"{self.word} {prefix}{self.name}"


@dataclass(slots=True)
class Reading:
    """What was read. With `problems` nothing may be sent; `warnings` are told and passed over."""

    manifests: list[Manifest] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read_text(file: str) -> tuple[str, str]:
    """Name and text of a file, or of standard input for `-`. Raises CommandError."""
    if file == "-":
        return "standard input", typer.get_text_stream("stdin").read()
    try:
        return file, Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        todo = "Nothing was sent. Name a file, or - for standard input."
        raise CommandError(f"{file} cannot be read", str(reason), todo, code=BAD_INPUT) from error


def read(text: str, source: str, namespace: str, default: str) -> Reading:
    """Check all documents of `text`.

    Args:
        namespace: what -n says; '' if it was not given. A document must not contradict it.
        default: namespace of documents that name none.
    """
    reading = Reading()
    for document in _documents(text, source, reading):
        _take(document.body, f"{source}:{document.line}", (namespace, default), reading)
    seen: dict[tuple[str, str, str], str] = {}
    for manifest in reading.manifests:
        key = (str(manifest.resource), manifest.namespace, manifest.name)
        if manifest.body["metadata"].get("name") and key in seen:
            reading.problems.append(f"{manifest.where}: {manifest} is in {seen[key]} already")
        seen[key] = manifest.where
    _take_groups(reading)
    if not reading.manifests and not reading.problems:
        reading.problems.append(f"{source}: it holds no object")
    return reading


def pod_groups(manifests: Iterable[Manifest]) -> list[list[Manifest]]:
    """The queued pods among them, by group. Those whose names are to be generated are alone."""
    groups: dict[object, list[Manifest]] = {}
    for one in manifests:
        if one.kind is not None and one.kind.bundled and queue_of(one.body):
            meta = {"name": one.where, **one.body["metadata"]}
            groups.setdefault(group_of({**one.body, "metadata": meta})[:2], []).append(one)
    return list(groups.values())


def _take_groups(reading: Reading) -> None:
    for group in pod_groups(reading.manifests):
        kind, where = group[0].kind, group[0].where
        if kind is None or (len(group) == 1 and _single(group[0])):
            continue
        problem, warning = check_group(kind, [one.body for one in group])
        reading.problems += [f"{where}: {problem}"] if problem else []
        reading.warnings += [f"{where}: {warning}"] if warning else []


def _single(manifest: Manifest) -> bool:
    return (
        group_of({**manifest.body, "metadata": {"name": "x", **manifest.body["metadata"]}}).total
        == 1
    )


def _documents(text: str, source: str, reading: Reading) -> Iterator[Document]:
    """Each document. Raises CommandError with line and column where the text is not YAML."""
    for found in documents(text):
        if isinstance(found, Document):
            yield from found.items()
        elif not found.last:
            reading.problems.append(f"{source}:{found.line}: {found.message}")
        else:
            raise CommandError(
                f"{source}:{found.line}:{found.column}: this is not YAML",
                found.message,
                "Nothing was sent. Correct the line (tabs? indentation? a missing quote?).",
                code=BAD_INPUT,
            )


def _take(document: Any, where: str, namespaces: tuple[str, str], reading: Reading) -> None:
    """Check one document and add it, or what is wrong with it."""
    if not isinstance(document, dict):
        reading.problems.append(f"{where}: an object is a mapping, this is {document!r:.40}")
        return
    found = resource_of(str(document.get("apiVersion", "")), str(document.get("kind", "")))
    if isinstance(found, str):
        reading.problems.append(f"{where}: {found}")
        return
    if not isinstance(document.get("metadata"), dict):
        reading.problems.append(f"{where}: metadata with a name is missing")
        return
    body = normalize(document)
    meta = dict(body["metadata"])
    body = {**body, "metadata": meta}
    problems = check_name(meta)
    if found.namespaced:
        wanted, default = namespaces
        if wanted and meta.setdefault("namespace", wanted) != wanted:
            problems.append(f"it says namespace {meta['namespace']}, but -n says {wanted}")
        meta.setdefault("namespace", default)
    more, warnings = check_fields(body)
    reading.problems += [f"{where}: {problem}" for problem in (*problems, *more)]
    reading.warnings += [f"{where}: {warning}" for warning in warnings]
    if not problems and not more:
        kind = job_kind(body["apiVersion"], body["kind"])
        reading.manifests.append(Manifest(held(kind, body), found, where, kind))
