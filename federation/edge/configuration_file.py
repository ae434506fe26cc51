"""The programs' configuration from a YAML file."""

from __future__ import annotations

from pathlib import Path

import structlog

from federation.api.configuration import (
    ConfigurationError,
    Reading,
    read,
    to_kinds,
    to_policies,
    to_switched_off,
)
from federation.api.configuration_model import Configuration
from federation.core.policies import Policies
from federation.edge.documents import Document, Fault, documents
from federation.jobs.kinds.kind import Kinds
from federation.jobs.kinds.registry import KINDS, known

log = structlog.get_logger(__name__)

_EMPTY = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}


class ConfigurationFileError(Exception):
    """The file cannot be used; the message names file, line, field and what to do."""


def configured(path: Path | None) -> Policies:
    """What a configuration file says of admission; Kueue's defaults without one. Notices go to the
    log.

    Raises ConfigurationFileError.
    """
    return to_policies(configuration(path))


def configuration(path: Path | None) -> Configuration:
    """All of a configuration file; an empty one without a path. Notices go to the log.

    Raises ConfigurationFileError.
    """
    reading = read(_EMPTY) if path is None else load(path)
    for notice in reading.notices:
        where = ".".join(map(str, notice.path))
        log.warning("configuration.notice", file=str(path), field=where, text=notice.message)
    return reading.configuration


def configured_kinds(path: Path | None) -> Kinds:
    """All kinds of jobs, with those that a file adds, and without those that it switches off.
    Raises ConfigurationFileError.
    """
    if path is None:
        return KINDS
    found = load(path).configuration
    return known(to_kinds(found), to_switched_off(found))


def load(path: Path) -> Reading:
    """Read the one Configuration in a file. Raises ConfigurationFileError."""
    try:
        found = list(documents(path.read_text(encoding="utf-8-sig")))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise ConfigurationFileError(
            f"the configuration file {path} cannot be read: {why}. Name a readable YAML file."
        ) from error
    faults = [f"{path}:{f.line}:{f.column}: {f.message}" for f in found if isinstance(f, Fault)]
    if faults:
        raise _error(path, faults, "Correct the YAML")
    document = found[0] if len(found) == 1 else None
    if not isinstance(document, Document) or not isinstance(document.body, dict):
        what = f"{path}: it must hold one Configuration, as one mapping"
        raise _error(path, [what], "Write apiVersion: config.kueue.x-k8s.io/v1beta2")
    try:
        return read(document.body)
    except ConfigurationError as error:
        lines = [f"{path}:{document.line_of(p.path)}: {p}" for p in error.problems]
        raise _error(
            path, lines, "Correct these fields, or remove them for the defaults"
        ) from error


def _error(path: Path, lines: list[str], todo: str) -> ConfigurationFileError:
    head = f"the configuration file {path} cannot be used:"
    return ConfigurationFileError("\n".join((head, *lines, f"{todo} (`fedq lint -f {path}`).")))
