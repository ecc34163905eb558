"""The nano world: a procedural space of small environments, with hints and players, for a very small model."""
