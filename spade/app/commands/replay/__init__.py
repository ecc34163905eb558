"""`spade replay`: look into a run's store, check it, take it apart, make it smaller, seed another with it."""
