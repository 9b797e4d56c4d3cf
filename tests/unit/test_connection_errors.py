"""What the driver's errors mean."""

import psycopg

from langmem_tiers.postgres.errors import interruption


def test_what_ensues_from_an_interruption_is_an_interruption() -> None:
    interrupted, cancelled = KeyboardInterrupt(), psycopg.errors.QueryCanceled()
    ensued = psycopg.errors.PipelineAborted()
    assert interruption(ensued) is None

    cancelled.__context__, ensued.__context__ = interrupted, cancelled

    assert interruption(ensued) is interrupted
