"""The composition root: commands, supervisor, live view, nano model. Nothing below imports it."""
