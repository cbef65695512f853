"""`python -m shoal`, where the command itself is not on the path."""

from shoal.cli.main import main

if __name__ == "__main__":
    main()
