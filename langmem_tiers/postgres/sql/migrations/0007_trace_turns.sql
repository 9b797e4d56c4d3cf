-- What a turn decided is an event too, and not always about a memory.
ALTER TABLE {memory}.events ALTER COLUMN id DROP NOT NULL;
