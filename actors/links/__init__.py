"""The links of an actor to services: connections to them, work on leases, and the errors in serving a request."""
