"""The costs of a live run: processor time by process and by part, and tokens computed beside tokens used."""
