"""The checklist of MultiKueue's behaviours is whole, and says the truth about our tests."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.multikueue_checklist import CHECKLIST, Item

TESTS = Path(__file__).parents[1]
ITEMS = 124


@cache
def _functions(file: str) -> frozenset[str]:
    """Names of the tests in a file."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return frozenset(node.name for node in tree.body if isinstance(node, kinds))


def test_every_item_is_there() -> None:
    """Once, in order."""
    assert [item.number for item in CHECKLIST] == list(range(1, ITEMS + 1))


@pytest.mark.parametrize("item", CHECKLIST, ids=lambda item: str(item.number))
def test_an_item(item: Item) -> None:
    """It says something, and the tests that it names exist."""
    assert item.words
    assert item.tests or item.apart or item.missing
    for test in item.tests:
        file, _, name = test.partition("::")
        assert name in _functions(file), f"{item.number}: {test} does not exist"
