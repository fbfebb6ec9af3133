"""Text and JSON on their way out: bytes, safe text, and the terminal."""
