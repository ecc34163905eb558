"""`spade up` whose role processes keep a record of what was acknowledged to them (`tests.chaos.role`)."""

from spade import supervise
from spade.app.cli import main

if __name__ == "__main__":
    modules = supervise.MODULES
    assert isinstance(modules, dict)
    modules.update(dict.fromkeys(modules, "tests.chaos.role"))
    main()
