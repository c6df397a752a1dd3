"""``python -m refcompare``."""

from refcompare.cli import main

main()
