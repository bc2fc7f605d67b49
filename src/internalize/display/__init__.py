"""Terminal views, the frame of HTML pages and the style of plots: once, for everybody."""
