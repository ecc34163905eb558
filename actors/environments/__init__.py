"""Generated programs at work: their episodes, admission and audits, in the env-runner process."""
