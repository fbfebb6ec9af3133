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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 88
"""Pixels of the longer side: twice what a result card shows."""

LOGO_BYTES = 1_300
"""What a small picture may have: 20 of them fit with a page of results and all it loads into 100 kB. See
`overlay.pages.measures`."""

_SIDES, _QUALITIES = (SIDE, 64, 44, 24), (80, 60, 45, 30, 20)
"""What is tried in turn. A photograph full of colours comes out at 88 pixels and a quality of 20 to 45, which looks the
same on a page; noise of all colours at 64 pixels, and at 24 with noise in its opacity, too."""

MOST_BYTES = 2_000_000
MOST_SIDE = 4_096
FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
CPU_SECONDS, MEMORY = 10, 1 << 30


def thumbnail(body: bytes) -> bytes:
    """The first frame as WebP of at most LOGO_BYTES within SIDE by SIDE pixels, coarser or smaller where it needs to
    be. Raises OSError or ValueError for what is no such picture."""
    from PIL import ImageOps
    from PIL.Image import open as read

    with read(BytesIO(body), formats=FORMATS) as opened:
        if max(opened.size) > MOST_SIDE:
            raise ValueError(f"{opened.size} is larger than {MOST_SIDE} pixels")
        picture = ImageOps.exif_transpose(opened).convert("RGBA")
    for side in _SIDES:
        picture.thumbnail((side, side))
        for quality in _QUALITIES:
            made = _webp(picture, quality)
            if len(made) <= LOGO_BYTES:
                return made
    raise ValueError(f"{len(made):,} bytes are left, more than {LOGO_BYTES:,}")


def _webp(picture: Image, quality: int) -> bytes:
    made = BytesIO()
    metadata = {"exif": b"", "icc_profile": b"", "xmp": b""}
    picture.save(made, "WEBP", quality=quality, alpha_quality=50 + quality // 2, method=4, **metadata)
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
