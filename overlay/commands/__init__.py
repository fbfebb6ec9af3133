"""The subcommands of `a2b`, one noun a file. Nothing heavy is imported before a command needs it."""
