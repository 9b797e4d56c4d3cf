"""Conversation and memory files, read as records that can be stored.

Reading is pure: no database is touched. Five formats are known (see `Format`), and told apart
by what a file holds, never by its name. Every record of a file becomes exactly one `Record`,
or one `BadRecord` that says where it stands and what is wrong with it.
"""

from langmem_tiers.importers.reading import count_records, detect_format, read_records
from langmem_tiers.importers.records import BadRecord, Format, Record

__all__ = ["BadRecord", "Format", "Record", "count_records", "detect_format", "read_records"]
