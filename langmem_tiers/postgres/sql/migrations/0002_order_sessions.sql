-- What recall knows of a memory beside its text, read from its value: the session it belongs to
-- and its turn there, who said it, and when what it tells happened.
ALTER TABLE {memory}.memories
    ADD COLUMN session     text COLLATE "C",
    ADD COLUMN turn        integer,
    ADD COLUMN speaker     text COLLATE "C",
    ADD COLUMN occurred_at timestamptz;

CREATE INDEX memories_turns ON {memory}.memories (tenant, namespace, session, turn)
    WHERE session IS NOT NULL;
CREATE INDEX memories_speakers ON {memory}.memories (tenant, speaker) WHERE speaker IS NOT NULL;

-- By key first: a memory is also found by its key alone.
ALTER TABLE {memory}.memories DROP CONSTRAINT memories_tenant_namespace_key_tier_key;
ALTER TABLE {memory}.memories ADD UNIQUE (tenant, key, namespace, tier);

-- Accesses, each counting half after 30 days, as of the last one.
ALTER TABLE {memory}.usage ADD COLUMN strength double precision NOT NULL DEFAULT 0;
