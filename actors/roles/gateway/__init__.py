"""The gateway: an OpenAI-compatible server over the run's engines, for programs that are none of ours."""
