"""The life of a role process: its start by a supervisor, its orders, its GPUs, its log and its end."""
