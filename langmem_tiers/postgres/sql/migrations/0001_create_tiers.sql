CREATE SCHEMA {short_term};
CREATE SCHEMA {working};
CREATE SCHEMA {long_term};

CREATE TYPE {memory}.tier AS ENUM ('short_term', 'working', 'long_term');
CREATE SEQUENCE {memory}.memory_ids;

-- What this database was set up for: the shape of its vectors.
CREATE TABLE {memory}.settings (
    name  text PRIMARY KEY,
    value jsonb NOT NULL
);

-- One logical table, one partition and one schema a tier. The tenant is the first label of
-- the namespace; `namespace` holds the labels after it, each followed by a dot ('' for none),
-- so that a prefix is a range of whole labels. (tenant, namespace, key) is unique across
-- tiers by the rule of put: a memory is updated where it lives.
CREATE TABLE {memory}.memories (
    tenant      text COLLATE "C" NOT NULL,
    tier        {memory}.tier NOT NULL,
    id          bigint NOT NULL DEFAULT nextval('{memory}.memory_ids'),
    namespace   text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    value       jsonb NOT NULL,
    lexemes     tsvector,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    expires_at  timestamptz,
    ttl_minutes double precision,
    PRIMARY KEY (tenant, id, tier),
    UNIQUE (tenant, namespace, key, tier)
) PARTITION BY LIST (tier);

CREATE TABLE {short_term}.memories PARTITION OF {memory}.memories FOR VALUES IN ('short_term');
CREATE TABLE {working}.memories PARTITION OF {memory}.memories FOR VALUES IN ('working');
CREATE TABLE {long_term}.memories PARTITION OF {memory}.memories FOR VALUES IN ('long_term');

-- Newest first within a tenant, for search without a query.
CREATE INDEX memories_newest ON {memory}.memories (tenant, updated_at DESC);
-- What the sweeper removes.
CREATE INDEX memories_expiring ON {memory}.memories (expires_at) WHERE expires_at IS NOT NULL;
-- Words; each tsvector also holds its tenant as a lexeme, so that one index narrows by both.
-- Without a pending list the index is a quarter of the size and no put pays for flushing it.
CREATE INDEX memories_lexemes ON {memory}.memories USING gin (lexemes) WITH (fastupdate = off);

-- Counters change on every read, so they live in a narrow row of their own that no index
-- but the key covers. A memory that was never read has none.
CREATE TABLE {memory}.usage (
    tenant           text COLLATE "C" NOT NULL,
    id               bigint NOT NULL,
    access_count     integer NOT NULL DEFAULT 0,
    success_count    integer NOT NULL DEFAULT 0,
    failure_count    integer NOT NULL DEFAULT 0,
    last_accessed_at timestamptz,
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 60);
