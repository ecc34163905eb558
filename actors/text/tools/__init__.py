"""Prompts of tool use for instruct models: how a sound simulated service works, and how a player uses its tools."""
