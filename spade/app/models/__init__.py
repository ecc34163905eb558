"""Import foreign models as checkpoint folders, and examine them before a run takes them."""
