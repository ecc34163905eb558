"""The composition root: the command line, the live view and the `up` commands. Nothing imports it."""
