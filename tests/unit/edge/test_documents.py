"""YAML text: what Kubernetes would read, with lines; what would grow or turn in a circle is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.api.configuration import to_retention
from federation.core.policies import Retention
from federation.edge.configuration_file import ConfigurationFileError, load
from federation.edge.documents import Document, Fault, documents


def bodies(text: str) -> list[object]:
    """What the documents hold."""
    return [d.body for d in documents(text) if isinstance(d, Document)]


def fault(text: str) -> Fault:
    """The one fault of a text."""
    (found,) = documents(text)
    assert isinstance(found, Fault)
    return found


def aliases(levels: int, width: int, merge: str = "") -> str:
    """Aliases of aliases, `width` ** `levels` values when written out."""
    lines = ["a0: &a0 {x: 1}"]
    for level in range(1, levels):
        items = ",".join([f"*a{level - 1}"] * width)
        value = f"{{<<: [{items}]}}" if merge else f"[{items}]"
        lines.append(f"a{level}: &a{level} {value}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("a: 2024-01-01", {"a": "2024-01-01"}),
        ("a: 1:30", {"a": "1:30"}),
        ("1: x\ntrue: y", {"1": "x", "true": "y"}),
        (
            "a: 0x1F\nb: -5\nc: 1.5\nd: yes\ne: ~",
            {"a": 31, "b": -5, "c": 1.5, "d": True, "e": None},
        ),
        ("a: &x {b: 1}\nc: {<<: *x, b: 2}\nd: *x", {"a": {"b": 1}, "c": {"b": 2}, "d": {"b": 1}}),
        ('{"a": [1, "b"]}', {"a": [1, "b"]}),
    ],
)
def test_values_are_those_of_kubernetes(text: str, body: object) -> None:
    """Dates and 1:30 are texts, keys are texts, small aliases are written out."""
    assert bodies(text) == [body]


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ("a: 1\nb: 2\na: 3", 3, 1, "'a' is there twice (first in line 1)"),
        ("x: {a: 1, a: 2}", 1, 11, "'a' is there twice"),
        ("a: [1,\nb: 2", 2, 5, "expected ',' or ']'"),
        ("a:\n\t- b", 2, 1, "cannot start any token"),
        ("b: 1\na: &a [*a]", 2, 4, "stands for something that holds it"),
        ("a: *nope", 1, 4, "undefined alias"),
        (aliases(9, 9), 1, 1, "more than 1000000 values"),
        (aliases(9, 9, merge="<<"), 1, 1, "more than 1000000 values"),
        ("[" * 2000, 1, 1, "nested too deeply"),
        ("{a: " * 600 + "1" + "}" * 600, 1, 1, "nested too deeply"),
        ("a: !!binary aGk=", 1, 4, "binary"),
        ("a: !!python/object/apply:os.getcwd []", 1, 4, "python"),
        ("a: !!timestamp 2024-01-01", 1, 4, "timestamp"),
        ("? [1]\n: x", 1, 3, "a key must be a text"),
        ("b: 1\na: " + "9" * 20, 2, 4, "does not fit 64 bits"),
        ("a: " + "9" * 6000, 1, 4, "does not fit 64 bits"),
        ("a: .inf", 1, 4, "JSON has no such number"),
        ("a: \x00", 1, 1, "unacceptable character"),
    ],
)
def test_faults_are_told_with_their_place(text: str, line: int, column: int, said: str) -> None:
    """One line each, and nothing is built."""
    found = fault(text)
    assert (found.line, found.column) == (line, column)
    assert said in found.message
    assert "\n" not in found.message


def test_a_bad_document_leaves_the_others() -> None:
    """Only a broken syntax ends the stream."""
    found = list(documents("a: 1\n---\nb: 1\nb: 2\n---\n---\nc: 3\n---\n]"))
    assert [type(d) for d in found] == [Document, Fault, Document, Fault]
    assert [d.line for d in found] == [1, 4, 7, 9]
    assert [d.last for d in found if isinstance(d, Fault)] == [False, True]


def test_empty_texts_hold_no_document() -> None:
    """Comments and separators alone."""
    assert list(documents("")) == list(documents("# hi\n---\n---\n")) == []


def test_lines_of_fields() -> None:
    """The field's line, or that of what is above it; items of a List are documents."""
    text = "\n# c\nkind: JobList\nitems:\n- a:\n  - b: 1\n    c: 2\n- d: 3\n"
    (whole,) = documents(text)
    assert isinstance(whole, Document)
    first, second = whole.items()
    assert (whole.line, first.line, second.line) == (3, 5, 8)
    assert first.line_of(("a", 0, "c")) == 7
    assert first.line_of(("a", 0, "nope")) == 6
    assert first.line_of(("a", 5)) == 5
    assert first.line_of(("nope",)) == 5
    assert second.line_of(("d", "x")) == 8


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.text(st.characters(codec="ascii", min_codepoint=32, max_codepoint=126), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/.-", max_size=4), inner)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_json_is_read_as_it_is(value: object) -> None:
    """JSON is YAML; `null` is an empty document."""
    assert bodies(json.dumps(value)) == ([] if value is None else [value])


@given(st.text(max_size=60))
def test_no_text_is_too_bad(text: str) -> None:
    """Documents or faults, never an exception."""
    for found in documents(text):
        assert found.line >= 1


def test_a_configuration_is_read_from_a_file(tmp_path: Path) -> None:
    """The loader of the programs."""
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
        "objectRetentionPolicies: {workloads: {afterFinished: 1h}}\n"
    )
    assert to_retention(load(file).configuration) == Retention(3600, None)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "config.yaml cannot be read: No such file or directory"),
        (b"\xff\xfe", "it is no UTF-8 text"),
        (b"a: [", "config.yaml:1:5:"),
        (b"", "must hold one Configuration"),
        (b"- a", "must hold one Configuration"),
        (b"a: 1\n---\nb: 1", "must hold one Configuration"),
        (b"kind: Job\napiVersion: batch/v1", "config.yaml:1: kind: 'Job': it must be"),
        (
            b"kind: Configuration\napiVersion: config.kueue.x-k8s.io/v1beta2\n"
            b"waitForPodsReady:\n  blockAdmission: true\n  timeout: soon",
            "config.yaml:5: waitForPodsReady.timeout: 'soon' is not a duration",
        ),
    ],
)
def test_bad_configuration_files(tmp_path: Path, data: bytes | None, said: str) -> None:
    """File, line and field are named."""
    file = tmp_path / "config.yaml"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(ConfigurationFileError) as raised:
        load(file)
    assert said in str(raised.value)
