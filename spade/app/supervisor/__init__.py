"""The supervisor of the `up` commands. It decides which processes of a run to keep up, and how many actors."""
