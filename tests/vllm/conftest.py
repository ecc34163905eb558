"""What all tests of vLLM need."""


def pytest_configure(config):
    """vLLM closes its sockets and never their context, of which pyzmq warns when it is collected."""
    config.addinivalue_line("filterwarnings", "ignore:Unclosed context:ResourceWarning")
