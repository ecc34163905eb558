"""Shared by all tests of vLLM."""

import warnings


def pytest_configure(config):
    """vLLM closes its sockets and never their context, of which pyzmq warns when it is collected, be it at the end."""
    config.addinivalue_line("filterwarnings", "ignore:Unclosed context:ResourceWarning")
    warnings.filterwarnings("ignore", "Unclosed context", ResourceWarning)  # outside of tests
