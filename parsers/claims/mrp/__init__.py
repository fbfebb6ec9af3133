"""MRP: envelopes against the schemas of 0.1, and their signatures."""
