"""Foreign engines behind our interface: vLLM, and servers of OpenAI's completions API."""
