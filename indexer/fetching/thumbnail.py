"""A program of its own that makes a small picture of what a stranger calls one: bytes in, WebP out, and nothing else.

Decoders of pictures are what strangers attack. So they run here, in a process that has seconds, little memory, no
environment and no file to write, and what comes out are pixels that were drawn anew: no metadata, no second format
hidden behind the first, no script. Run by `indexer.logos` as `python -I thumbnail.py`; anything but exit code 0 means
that there is no picture.
"""

from __future__ import annotations

import resource
import sys
from io import BytesIO

SIDE = 88
"""Pixels of the longer side: twice what a result card shows."""

MOST_BYTES = 2_000_000
MOST_SIDE = 4_096
FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
CPU_SECONDS, MEMORY = 10, 1 << 30


def thumbnail(body: bytes) -> bytes:
    """The first frame as WebP within SIDE by SIDE pixels. Raises OSError or ValueError for what is no such picture."""
    from PIL import Image, ImageOps

    with Image.open(BytesIO(body), formats=FORMATS) as opened:
        if max(opened.size) > MOST_SIDE:
            raise ValueError(f"{opened.size} is larger than {MOST_SIDE} pixels")
        picture = ImageOps.exif_transpose(opened).convert("RGBA")
    picture.thumbnail((SIDE, SIDE))
    made = BytesIO()
    picture.save(made, "WEBP", quality=80, method=4, exif=b"", icc_profile=b"", xmp=b"")
    return made.getvalue()


def main() -> None:
    """Standard input to standard output."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdout.buffer.write(thumbnail(sys.stdin.buffer.read(MOST_BYTES + 1)[:MOST_BYTES]))


if __name__ == "__main__":
    main()
