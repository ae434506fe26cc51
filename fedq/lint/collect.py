"""From the command line's files, folders and standard input to things."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from federation.api.configuration import is_configuration
from federation.api.configuration_spelling import CONFIG_GROUP
from federation.api.names import FEDQ_GROUP, KUEUE_GROUP
from federation.api.problems import suggest
from federation.api.spelling import normalize, without_nulls
from federation.edge.documents import Document, Fault, documents
from fedq.errors import BAD_INPUT, CommandError
from fedq.kinds import resource_of
from fedq.lint.finding import Finding, Rule, Severity, Thing
from fedq.lint.world import is_node_groups

Json = dict[str, Any]
Told = tuple[str, Finding]
"""Rule id and finding."""

STDIN: Final = "<stdin>"
LARGEST: Final = 64 * 2**20
"""Bytes of one file."""
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_NOT_OBJECTS: Final = ("kustomization.yaml", "kustomization.yml")
_BATCH: Final = ("Job", "CronJob")

RULES: Final = (
    Rule("unreadable", Severity.REFUSED),
    Rule("no-object", Severity.REFUSED),
    Rule("unknown-kind", Severity.REFUSED),
    Rule("duplicate", Severity.REFUSED),
)


@dataclass(slots=True)
class Collected:
    """What the files hold: objects to look at, and findings about the rest. `files` in order."""

    things: list[Thing] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    objects: int = 0


def collect(names: Iterable[str]) -> Collected:
    """Read every file once. Raises CommandError when a name leads nowhere."""
    found = Collected()
    for name in dict.fromkeys(path for given in names for path in _files(given)):
        found.files.append(name)
        text = _text(name)
        if isinstance(text, Fault):
            found.told.append(_fault(name, text))
        else:
            take_text(name, text, found)
    _duplicates(found)
    return found


def _files(given: str) -> Iterator[str]:
    if given == "-":
        yield STDIN
        return
    path = Path(given)
    if not path.exists():
        todo = "Name files or folders with -f, or - for standard input."
        raise CommandError(f"there is no file or folder {given}", todo=todo, code=BAD_INPUT)
    if not path.is_dir():
        yield given
        return
    inside = sorted(p for p in path.rglob("*") if p.suffix in _SUFFIXES and p.is_file())
    names = [str(p) for p in inside if p.name not in _NOT_OBJECTS and not _hidden(p, path)]
    if not names:
        what = f"the folder {given} has no file that ends in {', '.join(_SUFFIXES)}"
        raise CommandError(what, code=BAD_INPUT)
    yield from names


def _hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(root).parts)


def take_text(name: str, text: str, found: Collected) -> None:
    """Add every document of a text."""
    any_document = False
    for document in documents(text):
        any_document = True
        if isinstance(document, Fault):
            found.told.append(_fault(name, document))
            continue
        for item in document.items():
            take(name, item, found)
    if not any_document:
        thing = Thing({}, name, 1)
        found.told.append(("no-object", Finding(thing, "the file holds no object", "fill it")))


def _text(name: str) -> str | Fault:
    """The text of a file, or why there is none."""
    try:
        if name == STDIN:
            data = sys.stdin.buffer.read(LARGEST + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            return Fault(1, 1, f"the file is larger than {LARGEST // 2**20} MiB")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        return Fault(line, 1, f"byte {error.start} is not UTF-8 text")
    except OSError as error:
        return Fault(1, 1, f"the file cannot be read: {error.strerror or error}")


def _fault(name: str, fault: Fault) -> Told:
    thing = Thing({}, name, fault.line)
    said = f"column {fault.column}: {fault.message}" if fault.column > 1 else fault.message
    return "unreadable", Finding(thing, said, "correct the text (YAML or JSON)")


def take(name: str, document: Document, found: Collected) -> None:
    """Check what the document is, and add it."""
    body = document.body
    found.objects += 1
    if not isinstance(body, dict):
        thing = Thing({}, name, document.line)
        said = f"an object is a mapping, this is {_sort(body)}"
        found.told.append(("no-object", Finding(thing, said, "write apiVersion, kind, metadata")))
        return
    thing = Thing(_normalized(body), name, document.line, body, document)
    if message := _strange(thing):
        todo = "correct apiVersion and kind"
        found.told.append(("unknown-kind", Finding(thing, message, todo, ("kind",))))
    else:
        found.things.append(thing)


def _sort(body: object) -> str:
    if isinstance(body, list):
        return "a list"
    return f"the value {body!r:.40}"


def _normalized(body: Json) -> Json:
    clean: Json = without_nulls(body)
    try:
        return normalize(clean)
    except (TypeError, KeyError, ValueError, AttributeError):  # told by the model
        return clean


def _strange(thing: Thing) -> str:
    """What is wrong with apiVersion and kind; '' for kinds of others, which are let be."""
    body = thing.body
    if is_node_groups(body) or (is_configuration(body) and thing.group != FEDQ_GROUP):
        return ""
    version, kind = body.get("apiVersion"), body.get("kind")
    if not isinstance(version, str) or not isinstance(kind, str) or not version or not kind:
        return "apiVersion and kind are missing: is this a Kubernetes object?"
    if thing.group == CONFIG_GROUP:
        return f"the group {CONFIG_GROUP} has no kind {kind}, only Configuration"
    if thing.group in (KUEUE_GROUP, FEDQ_GROUP):
        known = resource_of(version, kind)
        return known if isinstance(known, str) else ""
    if thing.group == "batch":
        if version != "batch/v1":
            return f"{kind} is not served as {version}, but as batch/v1"
        return "" if kind in _BATCH else f"batch/v1 has no kind {kind}{suggest(kind, _BATCH)}"
    return ""


def _duplicates(found: Collected) -> None:
    """The same object twice: the second would silently replace the first. The first is kept.

    In different files they may be meant for different clusters.
    """
    seen: dict[tuple[str, str, str, str], Thing] = {}
    kept = []
    for thing in found.things:
        if not isinstance(thing.meta.get("name"), str):
            kept.append(thing)
            continue
        key = (thing.group, thing.kind, thing.namespace, thing.name)
        if key in seen:
            first = seen[key]
            said = f"it is also in {first.source}:{first.line}"
            other = None if first.source == thing.source else Severity.WARNING
            todo = "keep one of the two, rename one, or lint them apart if clusters differ"
            finding = Finding(thing, said, todo, severity=other)
            found.told.append(("duplicate", finding))
            continue
        seen[key] = thing
        kept.append(thing)
    found.things = kept
