"""The service around an engine: requests by sender, the order between roles, and the thread that drives the engine."""
