"""What the driver's errors mean."""

import psycopg

from langmem_tiers.connection import interruption


def test_what_ensues_from_an_interruption_is_an_interruption() -> None:
    stopped = KeyboardInterrupt()
    try:
        try:
            raise stopped
        except KeyboardInterrupt:
            try:
                raise psycopg.errors.QueryCanceled
            except psycopg.Error:
                raise psycopg.errors.PipelineAborted from None
    except psycopg.Error as error:
        assert interruption(error) is stopped
    assert interruption(psycopg.errors.PipelineAborted()) is None
