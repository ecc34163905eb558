"""Run programs whose player uses tools. Read their schemas and solutions, and report their state to admission."""
