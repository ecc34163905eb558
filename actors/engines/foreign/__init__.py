"""Foreign engines behind our interface: vLLM, and servers of the completions API of OpenAI."""
