"""The service around an engine: who asked for what, whose turn it is, and the thread that the engine runs in."""
