"""The HTTP API: URLs and request bodies in, JSON out, one table of routes."""
