"""`python -m astra_kernels` is the `astra` command."""

from astra_kernels.app.cli import main

if __name__ == "__main__":
    main()
