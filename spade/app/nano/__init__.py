"""Building and measuring the nano model."""
