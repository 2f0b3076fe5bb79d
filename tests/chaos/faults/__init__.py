"""The faults, one module per family."""

from tests.chaos.faults import clock, damage, disk, network, processes, requests  # noqa: F401  # they fill the table
from tests.chaos.faults.registry import FAULTS, Fault

__all__ = ["FAULTS", "Fault"]
