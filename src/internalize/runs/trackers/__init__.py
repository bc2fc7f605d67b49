"""Trackers: observers that send a run's curves elsewhere. Each needs an extra of the package."""

from internalize.runs.trackers.choosing import TrackerName, find_trackers

__all__ = ["TrackerName", "find_trackers"]
