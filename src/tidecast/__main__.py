"""`python -m tidecast`."""

from tidecast.cli import main

main()
