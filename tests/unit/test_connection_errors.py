"""What the driver's errors mean."""

import psycopg
import pytest

from langmem_tiers.connection import interruption


def interrupted() -> None:
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        try:
            raise psycopg.errors.QueryCanceled
        except psycopg.Error:
            raise psycopg.errors.PipelineAborted from None


def test_what_ensues_from_an_interruption_is_an_interruption() -> None:
    with pytest.raises(psycopg.errors.PipelineAborted) as ensued:
        interrupted()

    assert isinstance(interruption(ensued.value), KeyboardInterrupt)
    assert interruption(psycopg.errors.PipelineAborted()) is None
