"""The gateway: an OpenAI-compatible server over the run's engines, for foreign programs."""
