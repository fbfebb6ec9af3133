"""Event streams (WHATWG HTML §9.2)."""

from __future__ import annotations


def event_data(stream: bytes) -> list[bytes]:
    """The data of the events in a stream; those without data are left out."""
    events = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n\n")
    lines = [
        [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")] for event in events
    ]
    return [b"\n".join(data) for data in lines if any(data)]
