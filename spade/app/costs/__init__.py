"""The costs of a live run: processor time by process and by part, and the tokens computed compared with the tokens
used."""
