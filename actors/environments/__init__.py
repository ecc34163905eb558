"""Run generated programs in the env-runner process: episodes, admission and audits."""
