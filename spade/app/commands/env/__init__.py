"""`spade env`: list, show, measure, check, play and export environments."""
