"""Windows on Spark: panes, coarser panes of finer ones, and roll-ups that rows join."""
