"""``python -m tfnewton`` is the command ``tfnewton``."""

from tfnewton.rerun.cli import main

if __name__ == "__main__":
    main()
