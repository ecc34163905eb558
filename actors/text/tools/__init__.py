"""The words of tool use for instruct models: what a sound simulated service is, and how a player uses its tools."""
