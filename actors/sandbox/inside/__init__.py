"""The code that runs behind the walls: the zygote and its children.

It imports only the standard library, the packages that programs may use, and the libraries of environments.
"""
