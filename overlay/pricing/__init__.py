"""Exchange rates and the amount due for an offer."""
