"""The cases, by subject."""

from ..case import CASES, Case
from . import draining, leases, network, submitting, working

__all__ = ["all_cases", "draining", "leases", "network", "submitting", "working"]


def all_cases() -> list[Case]:
    """Returns all cases in the order of their numbers."""
    return sorted(CASES, key=lambda case: case.number)
