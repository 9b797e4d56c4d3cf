"""Which memories a run goes without, so that their effect can be told from their company's."""

from __future__ import annotations

from hashlib import blake2b

from langmem_tiers.core.errors import InvalidInputError

_BITS = 64
_DRAWS = 1 << _BITS


def held_out(run: str, place: str, share: float) -> bool:
    """Whether a run goes without a memory that it would have been given.

    `place` says which memory: its namespace and key as one text. Of the pairs of a run and a
    memory, `share` of them, in 0…1, are held out, each independently of all others, and always
    the same: a recall that is repeated within a run shows the same memories. What is held out at
    one share is held out at every larger one.

    Raises:
        InvalidInputError: The share is not in 0…1.
    """
    if not 0 <= share <= 1:
        raise InvalidInputError(f"The share held out is {share}: give a number in 0…1.")
    return _draw(run, place) < share * _DRAWS


def _draw(run: str, place: str) -> int:
    """A number of 64 bits that looks random and depends on both names.

    The first name is hashed with its length, so that no two pairs are one text.
    """
    first, second = (name.encode("utf-8", "surrogatepass") for name in (run, place))
    head = len(first).to_bytes(8, "big")
    digest = blake2b(head + first + second, digest_size=_BITS // 8, person=b"hold-out").digest()
    return int.from_bytes(digest, "big")
