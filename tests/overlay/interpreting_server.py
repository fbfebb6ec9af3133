"""`a2b up` that notes, in the file CALLS, kernels that are interpreted in the thread of the event loop, but for those
of the table of watched outpoints: an event costs them 30 µs."""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

from overlay.cli import main
from parsers import jit


def note(frame: FrameType, event: str, _argument: Any) -> None:
    """Called at each call of the main thread."""
    code = frame.f_code
    if event == "call" and code.co_name == "_interpreted" and code.co_filename == jit.__file__:
        if frame.f_locals["function"].__module__ == "parsers.bitcoin.outpoint_table":
            return
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        with Path(os.environ["CALLS"]).open("a") as file:
            file.write("".join(traceback.format_stack(frame)[-12:]))


if __name__ == "__main__":
    sys.setprofile(note)
    main(sys.argv[1:])
