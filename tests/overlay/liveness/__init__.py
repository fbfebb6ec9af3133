"""Whether the endpoints of listings answer."""
