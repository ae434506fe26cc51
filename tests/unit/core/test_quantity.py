"""Quantities as Kubernetes reads them: cpu in milli-units, all else whole, fractions rounded up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.quantity import (
    QuantityError,
    add,
    format_quantity,
    parse_quantity,
    parse_resources,
    scale,
)
from tests.unit.core.build import FEW

READ = [
    ("cpu", "1", 1000),
    ("cpu", "500m", 500),
    ("cpu", "0.1", 100),
    ("cpu", "1.0005", 1001),
    ("cpu", "1u", 1),
    ("cpu", 2, 2000),
    ("cpu", 0.5, 500),
    ("memory", "1Gi", 2**30),
    ("memory", "1G", 10**9),
    ("memory", "128974848", 128974848),
    ("memory", "129e6", 129_000_000),
    ("memory", "129M", 129_000_000),
    ("memory", "123Mi", 123 * 2**20),
    ("memory", "1.5Ki", 1536),
    ("memory", "100m", 1),
    ("memory", "1Ei", 2**60),
    ("memory", "1E", 10**18),
    ("memory", "2E3", 2000),
    ("memory", "2e-3", 1),
    ("memory", "1k", 1000),
    ("nvidia.com/gpu", "4", 4),
    ("nvidia.com/gpu", "+4", 4),
    ("nvidia.com/gpu", ".5", 1),
    ("nvidia.com/gpu", "5.", 5),
    ("nvidia.com/gpu", " 4 ", 4),
    ("nvidia.com/gpu", "0", 0),
    ("memory", "-1500m", -1),
]


@pytest.mark.parametrize(("resource", "text", "amount"), READ)
def test_parse(resource: str, text: str | int | float, amount: int) -> None:
    """Values of apimachinery's resource.Quantity: MilliValue for cpu, Value for the rest."""
    assert parse_quantity(resource, text) == amount


@pytest.mark.parametrize(
    "text", ["", "x", "1Gib", "1 Gi", "1ki", "1K", "--1", "1e", "Mi", "1.2.3", "0x10", "1mm", "nan"]
)
def test_not_a_quantity(text: str) -> None:
    """Anything else is refused with an example of what is right."""
    with pytest.raises(QuantityError, match="is not a quantity"):
        parse_quantity("memory", text)


def test_the_resource_is_named() -> None:
    """In a list the error says which entry is wrong."""
    with pytest.raises(QuantityError, match=r"^memory: 'lots' is not"):
        parse_resources({"cpu": "1", "memory": "lots"})
    assert parse_resources(None) == {}


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("cpu", 0, "0"),
        ("cpu", -500, "-500m"),
        ("memory", 16 * 2**30, "16Gi"),
        ("memory", 1536, "1536"),
        ("memory", 1024, "1Ki"),
        ("memory", 0, "0"),
        ("hugepages-2Mi", 4 * 2**20, "4Mi"),
        ("nvidia.com/gpu", 1024, "1024"),
        ("pods", 3, "3"),
    ],
)
def test_format(resource: str, amount: int, text: str) -> None:
    """The shortest text that people expect."""
    assert format_quantity(resource, amount) == text


@FEW
@given(
    st.sampled_from(["cpu", "memory", "hugepages-2Mi", "nvidia.com/gpu"]),
    st.integers(-(2**62), 2**62),
)
def test_round_trip(resource: str, amount: int) -> None:
    """What is written reads back as the same number."""
    assert parse_quantity(resource, format_quantity(resource, amount)) == amount


def test_sums() -> None:
    """Names present on one side only are kept."""
    assert add({"a": 1, "b": 2}, {"b": 3, "c": 4}) == {"a": 1, "b": 5, "c": 4}
    assert scale({"a": 2}, 3) == {"a": 6}


@pytest.mark.parametrize("text", ["1e999999999", "1E-999999999", "1e31"])
def test_beyond_what_can_be_counted(text: str) -> None:
    """Refused at once instead of worked out."""
    with pytest.raises(QuantityError, match="beyond what can be counted"):
        parse_quantity("cpu", text)


@pytest.mark.parametrize("text", ["9" * 5000, "1e" + "9" * 5000, "0." + "1" * 5000])
def test_longer_than_any_number(text: str) -> None:
    """CRDs let it pass, and Python has another error for it than ours."""
    with pytest.raises(QuantityError, match="more, is no quantity"):
        parse_quantity("memory", text)
