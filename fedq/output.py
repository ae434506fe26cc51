"""How results are printed: columns for people, JSON and YAML for programs."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import Enum, StrEnum
from typing import Annotated, Any

import typer

from federation.api import yaml_text

Json = dict[str, Any]


class Output(StrEnum):
    """Formats of -o."""

    table = "table"
    json = "json"
    yaml = "yaml"


OutputOption = Annotated[Output, typer.Option("-o", "--output", help="Format.")]


def age(seconds: float) -> str:
    """A duration in one or two units: 42s, 3m10s, 5h, 2d."""
    total = max(0, int(seconds))
    for unit, size, below, small in (
        ("d", 86400, 3600, "h"),
        ("h", 3600, 60, "m"),
        ("m", 60, 1, "s"),
    ):
        if total >= size:
            rest = total % size // below
            return f"{total // size}{unit}" + (
                f"{rest}{small}" if rest and total < 10 * size else ""
            )
    return f"{total}s"


def since(moment: str | None, now: datetime | None = None) -> str:
    """Age of an RFC 3339 time; `-` when there is none."""
    if not moment:
        return "-"
    return age(((now or datetime.now(UTC)) - datetime.fromisoformat(moment)).total_seconds())


def columns(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Left-aligned columns without lines, so that they can be cut and grepped."""
    cells = [list(headings), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(headings))]
    lines = ("   ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


def wire(value: Any) -> Any:
    """Dataclasses as plain values with camelCase keys, the way Kubernetes writes them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {_camel(f.name): wire(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, list | tuple):
        return [wire(item) for item in value]
    if isinstance(value, dict):
        return {key: wire(item) for key, item in value.items()}
    if isinstance(value, Enum):
        return value.value
    return value


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)


def dump(value: Any, output: Output) -> str:
    """`value` as JSON or YAML text."""
    if output is Output.json:
        return json.dumps(wire(value), indent=2)
    return yaml_text.dump(wire(value)).rstrip()
