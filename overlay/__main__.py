"""`python -m overlay` is `a2b`."""

from overlay.cli import main

if __name__ == "__main__":
    main()
