"""The figures of the paper, one file each."""
