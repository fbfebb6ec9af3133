"""Keeps the store in step with its chains: one follower a chain, with its catch-up and its mempool."""
