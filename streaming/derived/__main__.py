"""What the driver runs: its classes keep their module's name on both sides of the pipe."""

from .process import main

if __name__ == "__main__":
    main()
