"""The same system as the integration tests'."""

from tests.integration.conftest import stack, team

__all__ = ["stack", "team"]
