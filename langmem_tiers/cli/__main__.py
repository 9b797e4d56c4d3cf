"""Entry point of `langmem-tiers`, which is also `python -m langmem_tiers.cli`."""

import sys


def main() -> None:
    """Run the command line; without its extra, say how to install it."""
    try:
        from langmem_tiers.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in {"rich", "typer"}:
            raise
        sys.exit('The command line needs Typer and Rich: pip install "langmem-tiers[cli]"')
    app(prog_name="langmem-tiers")


if __name__ == "__main__":
    main()
