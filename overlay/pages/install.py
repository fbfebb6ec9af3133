"""What somebody would put into the settings of an MCP client to use a tool: a stranger's command, shown, never run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from overlay.visible import visible_in_json


def install_config(item: Mapping[str, Any]) -> str | None:
    """The entry of `mcpServers` for a tool, as JSON that can be pasted; None for what is not started by a client.

    Variables have no values: those of the card are public, and say what they are for. What is invisible is escaped, so
    that what is copied is what was read.
    """
    if item["type"] != "tool" or not (item["command"] or item["url"]):
        return None
    entry: dict[str, Any] = {}
    if item["command"]:
        entry["command"] = item["command"]
        entry["args"] = item["args"]
        if item["env"]:
            entry["env"] = dict.fromkeys(item["env"], "")
    else:
        entry["url"] = item["url"]
    return visible_in_json(json.dumps({"mcpServers": {item["serverName"]: entry}}, indent=2, ensure_ascii=False))
