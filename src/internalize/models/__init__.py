"""Models: they know tokens and positions, nothing of tasks."""
