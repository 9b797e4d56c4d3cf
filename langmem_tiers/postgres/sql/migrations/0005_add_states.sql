-- Short-term state: what is going on, of a session or of an agent.
CREATE TABLE {memory}.states (
    tenant     text COLLATE "C" NOT NULL,
    owner      text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    value      jsonb NOT NULL,
    at         timestamptz NOT NULL,
    expires_at timestamptz,
    -- The order in which they came.
    number     bigint NOT NULL DEFAULT nextval('{memory}.memory_ids'),
    PRIMARY KEY (tenant, owner, kind, name)
);
-- The end of a conversation, read backwards.
CREATE INDEX states_messages ON {memory}.states (tenant, owner, at, number)
    WHERE kind = 'message';
-- What the sweeper removes.
CREATE INDEX states_expiring ON {memory}.states (expires_at) WHERE expires_at IS NOT NULL;
