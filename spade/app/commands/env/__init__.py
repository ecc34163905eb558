"""`spade env`: list, show, measure, check and play environments."""
