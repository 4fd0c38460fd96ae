"""The command `python -m fuzz`."""

from fuzz.run import main

main()
