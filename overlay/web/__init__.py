"""The web pages: rendered on the server, complete without scripts, and loading nothing from elsewhere."""
