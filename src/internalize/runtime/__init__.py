"""The protocol of an experiment, the one loop, and its kinds."""
