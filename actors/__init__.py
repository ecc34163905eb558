"""The acting side: designers, agents, env-runners and engines."""
