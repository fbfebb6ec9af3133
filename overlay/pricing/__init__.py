"""Exchange rates and what has to be paid for an offer."""
