"""Everything that talks to Postgres, and the flows that ask it to."""
