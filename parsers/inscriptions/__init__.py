"""The parts of an output for the registry: an ord envelope, MAP, SIGMA signatures, and one record of all of it."""
