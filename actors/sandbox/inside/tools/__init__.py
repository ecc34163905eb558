"""Programs whose player uses tools: their schemas, their runtime, and the answers to admission."""
