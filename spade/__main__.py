"""`python -m spade` is the command `spade`."""

from spade.app.cli import main

if __name__ == "__main__":
    main()
