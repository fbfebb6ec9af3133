"""Programs that show how the parts for agents are used."""
