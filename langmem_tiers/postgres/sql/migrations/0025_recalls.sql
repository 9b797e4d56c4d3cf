-- Recalls as they were, where a store records them: what was asked, what was seen (the rows that
-- Postgres answered and the vector of the question, as compressed JSON, so that later writes do not
-- matter), what was answered, and by which weights, model and profile. `turn` is the turn or the run
-- that it was for, of whose whole run `root` is the name.
CREATE TABLE {memory}.recalls (
    tenant     text COLLATE "C" NOT NULL,
    turn       text COLLATE "C" NOT NULL,
    recall     text COLLATE "C" NOT NULL,
    root       text COLLATE "C",
    user_id    text COLLATE "C",
    project    text COLLATE "C",
    at         timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    -- The memories that were seen.
    ids        bigint[] NOT NULL,
    asked      jsonb NOT NULL,
    seen       bytea NOT NULL,
    answered   jsonb NOT NULL,
    by         jsonb NOT NULL,
    -- The order in which they came.
    number     bigint NOT NULL DEFAULT nextval('{memory}.memory_ids'),
    PRIMARY KEY (tenant, turn, recall)
);
-- It is compressed already.
ALTER TABLE {memory}.recalls ALTER COLUMN seen SET STORAGE EXTERNAL;
CREATE INDEX recalls_root ON {memory}.recalls (tenant, root) WHERE root IS NOT NULL;
-- What the sweeper removes.
CREATE INDEX recalls_expiring ON {memory}.recalls (expires_at);
