"""The house API: questions from URLs and bodies, answers as JSON, one table of routes."""
