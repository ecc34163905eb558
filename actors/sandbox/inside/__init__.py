"""Code that runs behind the wall: the zygote and its children. It imports only the standard library."""
