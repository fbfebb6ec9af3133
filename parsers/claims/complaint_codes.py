"""The codes of complaints, for readers that need nothing else of them."""

from __future__ import annotations

CODES = ("nothing-delivered", "wrong-result", "too-late")

WITHDRAWN = "withdrawn"
"""The code by which the same key takes a complaint back."""
