"""Reading what a person submits: all of it is checked before anything is sent.

Every problem of a file is told at once, each with file and line; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from federation.api.spelling import normalize
from federation.edge.documents import Document, documents
from federation.edge.resources import Resource
from fedq.errors import BAD_INPUT, CommandError
from fedq.kinds import resource_of
from fedq.manifest_checks import check_fields, check_name

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object to create. `where` is file:line of its document."""

    body: Json
    resource: Resource
    where: str

    @property
    def is_job(self) -> bool:
        """Whether it is a batch/v1 Job."""
        return bool(self.body["kind"] == "Job")

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
        return f"{self.body['kind'].lower()} {prefix}{self.name}"


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
        key = (manifest.body["kind"], manifest.namespace, manifest.name)
        if manifest.body["metadata"].get("name") and key in seen:
            reading.problems.append(f"{manifest.where}: {manifest} is in {seen[key]} already")
        seen[key] = manifest.where
    if not reading.manifests and not reading.problems:
        reading.problems.append(f"{source}: it holds no object")
    return reading


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
        reading.manifests.append(Manifest(body, found, where))
