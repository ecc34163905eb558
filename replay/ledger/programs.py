"""The programs of the active environments by the digest that names them on the bus."""

from spade.codec import program_digest


class Programs:
    """Kept while an active environment has it; two environments may have the same."""

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}  # by environment
        self._sources: dict[str, str] = {}  # by digest

    def add(self, environment: str, source: str) -> None:
        """The program of an environment that becomes active."""
        digest = self._digests[environment] = program_digest(source)
        self._sources[digest] = source

    def drop(self, environment: str) -> None:
        """The environment is no longer active."""
        digest = self._digests.pop(environment)
        if digest not in self._digests.values():
            del self._sources[digest]

    def digest(self, environment: str) -> str:
        """The digest of an active environment's program."""
        return self._digests[environment]

    def get(self, digest: str) -> str | None:
        """The program that has this digest."""
        return self._sources.get(digest)
