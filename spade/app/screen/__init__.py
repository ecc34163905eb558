"""A run as an observer sees it: its status, in lines and as the live view."""
