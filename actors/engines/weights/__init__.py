"""Published weights on their way into an engine: fetched, followed, swapped and checked."""
