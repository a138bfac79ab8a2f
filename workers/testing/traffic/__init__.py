"""Realistic traffic by seed, each record with what the workers must make of it."""

from workers.testing.traffic.bad_records import TURN_KINDS, BadKind, Expected, GeneratedRecord
from workers.testing.traffic.conversations import Clock, stepping_clock
from workers.testing.traffic.plan import TrafficPlan

__all__ = ["TURN_KINDS", "BadKind", "Clock", "Expected", "GeneratedRecord", "TrafficPlan", "stepping_clock"]
