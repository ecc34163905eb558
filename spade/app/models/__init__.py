"""Models of others: brought in as checkpoint folders, and looked at before a run takes them."""
