"""The supervisor of the `up` commands: the processes of a run, and how many actors it keeps."""
