"""Commands about clusters: files for their schedulers, and the fitness of their machines."""
