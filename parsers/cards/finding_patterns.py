"""Patterns that a card is searched for before use, as data: of texts, commands and arguments, and well-known
packages.

How severe each code is stands in `parsers.reasons`. Every pattern is linear in its text.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class TextPattern(NamedTuple):
    """A pattern of any text of a card. In lower case, a text with a match has one of the `hints`: most have none."""

    code: str
    detail: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


_MODEL = "it gives orders to the model that reads it"

TEXTS = (
    TextPattern(
        "instructs-model", _MODEL, ("<important", "<system", "<instructions", "<secret", "[system", "<|im_start"),
        re.compile(
            r"</?(?:important|system(?:[-_ ]?(?:prompt|message))?|instructions|secret)>|\[/?system\]|<\|im_start",
            re.IGNORECASE,
        ),
    ),
    TextPattern(
        "instructs-model", _MODEL, ("ignore", "disregard", "forget", "override"),
        re.compile(
            r"(?<![\"'“‘«`(（])\b(?:ignore|disregard|forget|override) (?:all |any |the |your |every ){0,3}"
            r"(?:previous|prior|earlier|above|preceding|other) (?:system )?"
            r"(?:instructions?|prompts?|messages|rules|tools)\b(?![\"'”’»`)）])",
            re.IGNORECASE,
        ),
    ),
    TextPattern(
        "instructs-model", _MODEL, ("the user",),
        re.compile(
            r"\b(?:do not|don['’]t|never|must not) (?:ever )?(?:tell|inform|notify|alert|"
            r"(?:mention|reveal|show) (?:this |it )?to) the user\b"
            r"|\b(?:without (?:telling|informing|notifying|alerting)|(?:hide|conceal) (?:this|it) from) the user\b",
            re.IGNORECASE,
        ),
    ),
    TextPattern(
        "instructs-model", _MODEL, ("this tool",),
        re.compile(
            r"\b(?:must|always|should) (?:always )?(?:call|use|invoke|run) this tool "
            r"(?:instead of|(?:before|prior to) (?:using |calling )?(?:any|all|every|each))\b",
            re.IGNORECASE,
        ),
    ),
    TextPattern(
        "instructs-model", _MODEL, (".ssh", "id_rsa", "mcp.json"),
        re.compile(
            r"\b(?:read|send|pass|include|attach|upload) (?:[\w'’]+ ){0,5}[`'\"]?"
            r"(?:~/\.ssh|~/\.cursor/mcp\.json|[~/.\w]{0,20}id_rsa)\b",
            re.IGNORECASE,
        ),
    ),
)  # fmt: skip

HINTS = re.compile("|".join(re.escape(hint) for pattern in TEXTS for hint in pattern.hints))
"""Any hint: one pass that ends the search of most texts."""

HIDDEN = re.compile("[\\U000E0020-\\U000E007E]{4}|[\u200b\u2060-\u2064\ufeff\u180e]{3}|[\u202d\u202e]|\x1b\\[")
"""Unicode tags, runs of invisible characters, characters that reverse the order of others, and terminal escapes."""

FLAGS_OF_REGIONS = re.compile("\U0001f3f4[\\U000E0020-\\U000E007E]{2,8}\U000e007f")
"""Emoji flags, such as that of Scotland, which are spelt with tags."""

PIPES = re.compile(
    r"\b(?:curl|wget)\b[^|;\n]{0,400}+\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b"
    r"|\b(?:curl|wget)\b[^|;\n]{0,400}+\|\s*(?:sudo\s+)?(?:python3?|node|perl|ruby)\b"
    r"|(?:\$\(|<\(|`)\s*(?:curl|wget)\b|\b(?:iwr|irm|invoke-webrequest|invoke-restmethod)\b[^|\n]{0,400}+\|\s*iex\b"
    r"|\biex\s*\(|\bbase64\s+(?:-d|--decode)\b[^|\n]{0,100}+\|\s*(?:ba|z)?sh\b"
    r"|powershell\S*\s[^\n]{0,100}-e(?:nc|ncodedcommand)\b",
    re.IGNORECASE,
)
PIPE_HINTS = ("curl", "wget", "iwr", "irm", "invoke-", "iex", "base64", "powershell")
"""Commands that run the data that they fetch or hide, and texts of which each has one, in lower case."""

PRIVILEGES = re.compile(r"--privileged(?:=true)?|--cap-add[= ](?:ALL|SYS_ADMIN|SYS_PTRACE|SYS_MODULE)|--pid[= ]host"
                        r"|--userns[= ]host|--security-opt[= ](?:seccomp|apparmor)[=:]unconfined",
                        re.IGNORECASE)  # fmt: skip
PRIVILEGED_PROGRAMS = frozenset(("sudo", "doas", "su", "runas", "gsudo", "pkexec"))

ROOTS = re.compile(r"(?:-v|--volume)[= ](?:/|/etc|/root|/var|/home|/proc|/sys|/dev|[A-Za-z]:[\\/]?)/?:"
                   r"|(?:-v|--volume)[= ]\S{0,40}docker\.sock:|\b(?:source|src)=(?:/|\S{0,40}docker\.sock)(?:,|$| )",
                   re.IGNORECASE)  # fmt: skip
"""Mounts of a whole machine, or of the socket that commands its containers."""

CONTAINERS = frozenset(("docker", "podman", "nerdctl"))

RUNS_COMMANDS = re.compile(
    r"\b(?:execut(?:e|es|ing)|runs?|running|invoke) (?:[\w,/-]+ ){0,4}"
    r"(?:shell|terminal|bash|command[- ]line|system|cli|powershell|arbitrary|os) "
    r"(?:[\w-]+ )?(?:commands?|scripts?|code)\b"
    r"|\b(?:shell|terminal|command) execution\b|\bexecut(?:e|es|ing) (?:arbitrary )?commands\b",
    re.IGNORECASE,
)
RUN_HINTS = ("command", "script", "code", "execution")
"""Texts of which, in lower case, each that runs commands has one."""

COMMAND_TOOLS = frozenset((
    "execute_command", "run_command", "exec", "shell", "bash", "run_shell", "run_shell_command", "shell_exec",
    "execute_shell", "execute_bash", "run_bash", "terminal", "run_terminal_command", "execute_shell_command",
    "run_in_terminal", "powershell",
))  # fmt: skip
"""Names of tools that run commands."""

SHELL_CHARACTERS = re.compile(r"[;|&`<>()]|\$\(")
PLACEHOLDERS = re.compile(
    r"\$\{[^}]{0,200}\}|\{\{?[^{}]{0,200}\}?\}|<[\w .:/-]{1,80}>|%\w{1,60}%|[a-z]+://\S+", re.IGNORECASE
)
"""Placeholders that clients replace, and URLs: a shell would take them as written."""

KNOWN_PACKAGES = {
    "npm": (
        "@modelcontextprotocol/server-aws-kb-retrieval", "@modelcontextprotocol/server-brave-search",
        "@modelcontextprotocol/server-everart", "@modelcontextprotocol/server-everything",
        "@modelcontextprotocol/server-filesystem", "@modelcontextprotocol/server-gdrive",
        "@modelcontextprotocol/server-github", "@modelcontextprotocol/server-gitlab",
        "@modelcontextprotocol/server-google-maps", "@modelcontextprotocol/server-memory",
        "@modelcontextprotocol/server-postgres", "@modelcontextprotocol/server-puppeteer",
        "@modelcontextprotocol/server-sequential-thinking", "@modelcontextprotocol/server-slack",
        "@apify/actors-mcp-server", "@azure/mcp", "@brave/brave-search-mcp-server",
        "@browserbasehq/mcp-server-browserbase", "@cloudflare/mcp-server-cloudflare", "@e2b/mcp-server",
        "@elastic/mcp-server-elasticsearch", "@executeautomation/playwright-mcp-server", "@hubspot/mcp-server",
        "@notionhq/notion-mcp-server", "@paypal/agent-toolkit", "@paypal/mcp", "@playwright/mcp", "@stripe/mcp",
        "@supabase/mcp-server-postgrest", "@upstash/context7-mcp", "@zereight/mcp-gitlab", "exa-mcp-server",
        "figma-developer-mcp", "firecrawl-mcp", "mcp-remote", "mcp-server-kubernetes",
    ),
    "pypi": (
        "chroma-mcp", "elevenlabs-mcp", "mcp-atlassian", "mcp-server-fetch", "mcp-server-git", "mcp-server-qdrant",
        "mcp-server-sqlite", "mcp-server-time",
    ),
}  # fmt: skip
"""Packages that public lists of tools have and that other names are made to look like, by registry, in their compared
form (`command_packages.package_key`)."""
