"""DelegateOS: capability tokens (DCT), task contracts and attestations (protocol v0.1)."""
