"""The code that runs behind the walls: the zygote and its children.

It imports only the standard library and the packages that programs may use.
"""
