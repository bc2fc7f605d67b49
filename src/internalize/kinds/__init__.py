"""The kinds of experiment: each a folder with all that is its own."""
