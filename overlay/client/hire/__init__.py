"""Hire: from a need in words to a paid and verified result, by a client that holds its own key and coins."""
