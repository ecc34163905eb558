"""The composition root above all other packages. Only `spade/__init__.py` and `spade/__main__.py` import it."""
