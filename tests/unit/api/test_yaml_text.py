"""What is written as text is read as text, by readers of YAML 1.1 and of YAML 1.2."""

from __future__ import annotations

import pytest
import yaml

from federation.api.yaml_text import dump, dump_all

NUMBERS_TO_SOME = ["843e22", "1e3", "-1E+5", "0o17", "1", "1.5", "0x1f", "1_000", ".5", "12:30:45"]
BOOLEANS_TO_SOME = ["yes", "off", "true", "null", "~"]


@pytest.mark.parametrize("text", NUMBERS_TO_SOME + BOOLEANS_TO_SOME)
def test_text_that_some_readers_take_for_something_else_is_quoted(text: str) -> None:
    assert dump({"label": text}) == f"label: '{text}'\n"


@pytest.mark.parametrize("value", ["843e", "e22", "a1e3", "0o8", 7, 1.5, True, None, ["x"]])
def test_what_all_readers_take_alike_is_as_it_was(value: object) -> None:
    text = dump({"value": value})
    assert "'" not in text
    assert yaml.safe_load(text) == {"value": value}


def test_no_anchors_and_several_documents() -> None:
    shared = {"a": "b"}
    assert dump_all([shared, {"x": shared, "y": shared}]).count("a: b") == 3
