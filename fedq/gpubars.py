"""Cards as bars of text. Pure; names and texts of others are shown, never obeyed."""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size

from federation.core.devices.claims.cards import NO_LIMIT
from fedq.gpuview import CardView, HolderView, NamelessView, NodeView

BAR, NARROW_BAR, NARROW = 24, 12, 80
"""Cells of a bar; on terminals narrower than NARROW it is short."""
LETTERS = string.ascii_uppercase + string.ascii_lowercase
FREE, MANY, NAMELESS = ".", "#", "?"


def draw(nodes: Sequence[NodeView], width: int | None) -> str:
    """All nodes; no line is wider than `width` (None: as wide as needed)."""
    bar = NARROW_BAR if width is not None and width < NARROW else BAR
    cards = [card for node in nodes for card in node.cards]
    figures = [_figures(card) for card in cards]
    wide = [max((len(row[part]) for row in figures), default=0) for part in range(3)]
    cluster, lines, rest = "", [], iter(figures)
    for node in nodes:
        if node.cluster != cluster:
            cluster = node.cluster
            lines.append(f"cluster {safe(cluster)}")
        lines += _node(node)
        for card in node.cards:
            row = zip(next(rest), wide, strict=True)
            numbers = "  ".join(text.rjust(size) for text, size in row)
            state = "" if card.state == "open" else f"  {card.state}: {safe(card.why)}"
            model = safe(card.model)
            lines.append(
                f"  {card.index:2} [{bar_of(card, bar)}] {numbers}{state}  {safe(card.uuid)}"
                f"  {model}{'' if card.mode in ('', 'hami-core') else f' ({safe(card.mode)})'}"
            )
            lines += [
                f"     {letter} {_holder(holder)}"
                for letter, holder in zip(_letters(), card.holders, strict=False)
            ]
        lines += [f"     {NAMELESS} {_nameless(one)}" for one in node.nameless]
    return "\n".join(_cut(line, width) for line in lines)


def _node(node: NodeView) -> Iterator[str]:
    yield f"{safe(node.name)}{'' if node.ready else '  not ready, or closed for new pods'}"
    if node.fence:
        yield f"  takes nothing new: {safe(node.fence)}"
    for problem in node.problems:
        yield f"  {safe(problem)}"


def _figures(card: CardView) -> tuple[str, str, str]:
    over = (
        "!"
        if card.used_memory_mib > card.memory_mib
        or card.used_cores > card.cores
        or card.used_slots > card.slots
        else ""
    )
    return (
        f"{over}{card.used_memory_mib:,}/{card.memory_mib:,} MiB",
        f"{card.used_cores}/{card.cores} cores",
        f"{card.used_slots}{'' if card.slots >= NO_LIMIT else f'/{card.slots}'} slots",
    )


def _holder(holder: HolderView) -> str:
    name = f"{safe(holder.namespace)}/{safe(holder.name)}"
    parts = [f"{holder.memory_mib:,} MiB", f"{holder.cores} cores"]
    if holder.slots > 1:
        parts.append(f"{holder.slots} slots")
    parts += [f"{safe(one.profile)} at {one.start}" for one in holder.instances]
    kind = "" if holder.kind == "Pod" else f" ({holder.kind.lower()})"
    return f"{name}{kind} {holder.state}: {', '.join(parts)}"


def _nameless(one: NamelessView) -> str:
    what = safe(one.profile) or "whole card"
    count = f"{one.cards} {what}s" if one.cards > 1 else f"a {what}"
    return f"{safe(one.namespace)}/{safe(one.name)}: {count}, nobody noted which"


def bar_of(card: CardView, width: int) -> str:
    """One cell for each part of the memory (of the slots, if it has none), a letter for each
    holder. Whoever holds anything has at least a cell while there are any. A card that is used, and
    has no holder, is that of a pod which did not say which card it has.
    """
    if card.slices:
        return _slices(card, width)
    if card.used_slots and not card.holders:
        return NAMELESS * width
    total = card.memory_mib or card.slots or 1
    parts = [h.memory_mib if card.memory_mib else h.slots for h in card.holders]
    cells, used = "", 0
    for number, (letter, part) in enumerate(zip(_letters(), parts, strict=False)):
        used += part
        left = len(parts) - number - 1
        end = max(len(cells) + 1, round(width * used / total))
        end = min(end, max(width - left, len(cells) + 1), width)
        cells += letter * (end - len(cells))
    return cells.ljust(width, FREE)


def _slices(card: CardView, width: int) -> str:
    """A MIG card is drawn by memory slices, those of an instance where they are."""
    each = max(1, width // card.slices)
    cells = [FREE] * card.slices
    for letter, holder in zip(_letters(), card.holders, strict=False):
        for one in holder.instances:
            for place in range(one.start, min(one.start + one.size, card.slices)):
                cells[place] = letter
    return "".join(cell * each for cell in cells)[:width].ljust(width)


def _letters() -> Iterator[str]:
    yield from LETTERS
    while True:
        yield MANY


def safe(text: str) -> str:
    """Text of others: what would move the cursor, or turn the direction of writing, is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _cut(line: str, width: int | None) -> str:
    if width is None or cell_len(line) <= width:
        return line
    return set_cell_size(line, max(width - 1, 0)) + "…"
