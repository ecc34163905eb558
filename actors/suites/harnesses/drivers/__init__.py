"""Programs that run in a harness's environment, inside its sandbox. They import the harness, but nothing of ours."""
