"""Text of the seats of a gang: which host and which cards each of its pods is to get.

It is kept as one annotation, so that a plan outlives the program that made it. JSON while that is
short; longer ones are compressed, since UUIDs are long and an object has 256 KiB of annotations in
all: 1,000 pods of eight cards of their own take about 190 KiB. The text can be anybody's; what is
read is checked.
"""

from __future__ import annotations

import base64
import json
import lzma
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from federation.core.devices.cards import Allocation, Grant, Slice

LONGEST: Final = 208 * 1024
"""Characters that a note may have; the rest is left to other annotations."""

_READABLE = 16 * 1024
_PACKED = "xz:"
_UNPACKED = 4 * 1024 * 1024
_LARGEST = 2**31
_MEMORY = 64 * 1024 * 1024
_UNREADABLE = (
    *(ValueError, KeyError, IndexError, TypeError, AttributeError),
    *(RecursionError, MemoryError, EOFError, lzma.LZMAError),
)

Json = dict[str, Any]


class PlanNoteError(ValueError):
    """A plan that is too long to be noted, or a text that is not one."""


class Seat(NamedTuple):
    """A place for one pod: the name of its node, and its cards there by container."""

    host: str
    allocation: Allocation


class PlanNote(NamedTuple):
    """Seats by number, and until when (Unix seconds) one without a pod is kept."""

    seats: tuple[Seat, ...]
    until: int


def encode_plan(seats: Sequence[Seat], until: float) -> str:
    """The annotation text. PlanNoteError if it would be longer than `LONGEST`."""
    shapes: dict[str, int] = {}
    hosts: dict[str, list[list[int | str]]] = {}
    for number, (host, allocation) in enumerate(seats):
        shape = json.dumps([[_amounts(grant) for grant in grants] for grants in allocation])
        kind = shapes.setdefault(shape, len(shapes))
        uuids = [grant.uuid for grant in chain(*allocation)]
        hosts.setdefault(host, []).append([number, kind, *uuids])
    body = {"until": int(until), "shapes": [json.loads(shape) for shape in shapes], "hosts": hosts}
    text = json.dumps(body, separators=(",", ":"))
    if len(text) > _READABLE:
        text = _PACKED + base64.b85encode(lzma.compress(text.encode())).decode()
    if len(text) > LONGEST:
        raise PlanNoteError(
            f"the places of {len(seats)} pods take {len(text)} characters to note,"
            f" {LONGEST} are allowed: split the Job"
        )
    return text


def decode_plan(text: str) -> PlanNote:
    """The plan in an annotation. PlanNoteError if it is none, in whole or in part."""
    try:
        body = json.loads(_unpacked(text))
        shapes = body["shapes"]
        found = {
            _whole(line[0]): Seat(host, _allocation(shapes[_whole(line[1])], line[2:]))
            for host, lines in body["hosts"].items()
            for line in lines
        }
        if sorted(found) != list(range(sum(map(len, body["hosts"].values())))):
            raise ValueError("the seats are not numbered")
        seats = tuple(found[number] for number in range(len(found)))
        return PlanNote(seats, _whole(body["until"], 2**53))
    except _UNREADABLE as error:
        raise PlanNoteError(f"not a plan of devices: {error}") from None


def _unpacked(text: str) -> str:
    if not text.startswith(_PACKED):
        return text
    unpack = lzma.LZMADecompressor(lzma.FORMAT_XZ, _MEMORY)
    packed = base64.b85decode(text.removeprefix(_PACKED))
    raw = unpack.decompress(packed, _UNPACKED)
    if not unpack.eof:
        raise ValueError("it is cut off or too long")
    return raw.decode()


def _amounts(grant: Grant) -> list[int | str]:
    return [grant.vendor, grant.memory_mib, grant.cores, *(grant.slice or ())]


def _allocation(shape: Sequence[Sequence[Sequence[Any]]], uuids: Sequence[Any]) -> Allocation:
    if len(uuids) != sum(map(len, shape)):
        raise ValueError("not every card has amounts")
    rest = iter(uuids)
    return tuple(tuple(_grant(_text(next(rest)), *grant) for grant in grants) for grants in shape)


def _grant(uuid: str, vendor: Any, memory_mib: Any, cores: Any, *place: Any) -> Grant:
    where = None
    if place:
        profile, start, size = place
        where = Slice(_text(profile), _whole(start), _whole(size))
    return Grant(uuid, _text(vendor), _whole(memory_mib), _whole(cores), where)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _whole(value: Any, limit: int = _LARGEST) -> int:
    if type(value) is not int or not 0 <= value < limit:
        raise ValueError(f"{value!r} is not an amount")
    return value
