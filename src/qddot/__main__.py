"""`python -m qddot` is the command line."""

from qddot.cli import main

if __name__ == "__main__":
    main()
