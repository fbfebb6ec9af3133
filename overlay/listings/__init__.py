"""A registration or pointer becomes a listing, and a listing becomes JSON."""
