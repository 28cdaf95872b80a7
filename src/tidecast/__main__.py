"""`python -m tidecast`, and the program that spark-submit runs."""

import sys
from pathlib import Path

if not __package__:  # run as a file, its folder is on the path, where modules of ours would stand in for others
    sys.path[:] = [folder for folder in sys.path if folder != str(Path(__file__).parent)]

from tidecast.cli import main

main()
