"""Synchronises the topic from other overlays (GASP): pulls the outputs that they admit, with what proves them."""
