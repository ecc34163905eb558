"""Programs that run in the environment of a harness, behind walls: they import it, and nothing of ours."""
