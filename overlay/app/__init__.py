"""The long-running program: the composition root, its loops, its status, logs and metrics."""
