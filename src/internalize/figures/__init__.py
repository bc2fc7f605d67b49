"""One file a figure of the paper: its cases at three tiers, its drawing, its claims."""
