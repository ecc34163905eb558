"""The code that runs inside the sandbox: the zygote (a fork server) and its children.

It imports only the standard library, the packages that programs may use, and the libraries of environments.
"""
