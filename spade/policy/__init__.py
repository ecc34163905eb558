"""The policy: its files and manifest (modules without torch), and its model and log-probabilities (with torch)."""
