"""The supervisor of the `up` commands: the processes of a run, and the number of its actors."""
