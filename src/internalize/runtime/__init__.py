"""The protocol of an experiment, and the one loop that carries all of them out."""
