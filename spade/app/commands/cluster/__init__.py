"""Commands about clusters: write files for schedulers, and check the machines."""
