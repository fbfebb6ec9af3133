"""Payments by A2B claims: checking them against a node, and a gate that demands them of a server's clients."""
