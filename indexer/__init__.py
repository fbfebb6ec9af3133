"""Follows chains and stores their facts. Owns the database."""
