"""Which words of an annotation name which models."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.devices.host.matching import names_model

A100, H100 = "NVIDIA A100-SXM4-40GB", "NVIDIA H100 80GB HBM3"
RTX, ADA = "NVIDIA GeForce RTX 4090", "NVIDIA RTX 6000 Ada Generation"

NAMED = [
    ("A100", A100),
    ("a100", A100),
    ("nvidia a100", A100),
    ("A100-SXM4-40GB", A100),
    ("A100-SXM", A100),
    ("40GB", A100),
    ("NVIDIA", A100),
    (" A100 ", A100),
    ("HBM3", H100),
    ("H100 80GB", H100),
    ("RTX 6000", ADA),
    ("ada", ADA),
    ("4090", RTX),
    ("geforce", RTX),
    ("4090", "NVIDIA RTX4090"),
    ("Tesla", "NVIDIA-Tesla T4"),
    ("t4", "NVIDIA-Tesla T4"),
    ("L40S", "NVIDIA L40S"),
    ("910B4", "Ascend910B4"),
    ("=NVIDIA A10", "NVIDIA A10"),
    ("= nvidia a10", "NVIDIA A10"),
]
NOT_NAMED = [
    ("A10", A100),
    ("H20", "NVIDIA H200"),
    ("L4", "NVIDIA L40S"),
    ("L40", "NVIDIA L40S"),
    ("L4", "NVIDIA L40"),
    ("00", A100),
    ("100-SXM5", A100),
    ("GeFor", RTX),
    ("Force", RTX),
    ("H100", A100),
    ("NVIDIA-A100", A100),
    ("=A100", A100),
    ("=", A100),
    ("", A100),
    ("  ", A100),
    ("A100", ""),
]


@pytest.mark.parametrize(("word", "model"), NAMED)
def test_named(word: str, model: str) -> None:
    assert names_model(word, model)


@pytest.mark.parametrize(("word", "model"), NOT_NAMED)
def test_not_named(word: str, model: str) -> None:
    assert not names_model(word, model)


@given(st.text("AB10- ", max_size=6), st.text("AB10- ", max_size=10))
def test_no_more_than_hami_does(word: str, model: str) -> None:
    """HAMi takes every substring."""
    assert not names_model(word, model) or word.strip().lower() in model.lower()


@given(st.text("aB1-", min_size=1, max_size=8))
def test_a_model_names_itself(model: str) -> None:
    assert names_model(model, model)
    assert names_model("=" + model, model)
