-- The neighbours of a turn: of a session, or of what was stored one after another in none.
CREATE INDEX memories_neighbours ON {memory}.memories
    (tenant, namespace, (coalesce(session, '')), turn) WHERE turn IS NOT NULL;
DROP INDEX {memory}.memories_turns;
-- What happened in the days that a question names.
CREATE INDEX memories_dated ON {memory}.memories (tenant, occurred_at) WHERE occurred_at IS NOT NULL;
