"""`python -m langmem_tiers` is `langmem-tiers`."""

from langmem_tiers.cli.app import app

if __name__ == "__main__":
    app(prog_name="langmem-tiers")
