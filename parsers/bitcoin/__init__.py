"""Bitcoin's own formats: transactions, scripts, addresses, blocks and proofs. Imports no other folder of the room."""
