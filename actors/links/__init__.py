"""The links of an actor to services: connections, work on leases, and a counter of errors while requests are served."""
