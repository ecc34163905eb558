"""Code that runs behind the wall: the zygote and its children. Standard library alone; imports nothing else of ours."""
