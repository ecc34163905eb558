"""Programs that run in the environment of a harness, behind walls. They import the harness, and nothing of SPADE."""
