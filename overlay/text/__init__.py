"""Text and JSON for output: bytes, safe text, and the terminal."""
