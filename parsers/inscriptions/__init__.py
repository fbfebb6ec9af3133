"""What an output carries for the registry: an ord envelope, MAP, SIGMA signatures, and one record of all of it."""
