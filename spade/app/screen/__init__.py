"""A run as seen from outside: its status, in lines and as the live view."""
