"""`spade up` whose role processes keep a record of what was acknowledged to them (`tests.chaos.role`)."""

from spade.app.cli import main
from spade.app.supervisor.launches import MODULES

if __name__ == "__main__":
    assert isinstance(MODULES, dict)
    MODULES.update(dict.fromkeys(MODULES, "tests.chaos.role"))
    main()
