"""Frozen dataclasses as JSON, and the objects that users name in them."""
