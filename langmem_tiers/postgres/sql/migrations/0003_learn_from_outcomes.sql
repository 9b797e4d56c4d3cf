-- Learning: what failed, what was put before which run and what came of it, and which memories
-- came from which.
ALTER TABLE {memory}.memories
    ADD COLUMN state     text COLLATE "C",
    ADD COLUMN signature text COLLATE "C",
    ADD COLUMN tool      text COLLATE "C";

CREATE INDEX memories_signatures ON {memory}.memories (tenant, signature, updated_at DESC)
    WHERE signature IS NOT NULL;
CREATE INDEX memories_tools ON {memory}.memories (tenant, tool, updated_at DESC)
    WHERE tool IS NOT NULL;

CREATE TABLE {memory}.exposures (
    tenant     text COLLATE "C" NOT NULL,
    run        text COLLATE "C" NOT NULL,
    id         bigint NOT NULL,
    root       text COLLATE "C",
    project    text COLLATE "C",
    position   integer NOT NULL,
    held_out   boolean NOT NULL,
    exposed_at timestamptz NOT NULL,
    succeeded  boolean,
    settled_at timestamptz,
    settled_by text COLLATE "C",
    PRIMARY KEY (tenant, run, id)
);
CREATE INDEX exposures_memory ON {memory}.exposures (tenant, id);
CREATE INDEX exposures_root ON {memory}.exposures (tenant, root) WHERE root IS NOT NULL;

CREATE TABLE {memory}.lineage (
    tenant text COLLATE "C" NOT NULL,
    id     bigint NOT NULL,
    source bigint NOT NULL,
    event  text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id, source)
);
CREATE INDEX lineage_sources ON {memory}.lineage (tenant, source);

CREATE TABLE {memory}.events (
    tenant    text COLLATE "C" NOT NULL,
    event     text COLLATE "C" NOT NULL,
    number    bigint NOT NULL DEFAULT nextval('{memory}.memory_ids'),
    kind      text COLLATE "C" NOT NULL,
    id        bigint NOT NULL,
    target    bigint,
    at        timestamptz NOT NULL,
    detail    jsonb NOT NULL,
    undone_at timestamptz,
    PRIMARY KEY (tenant, event)
);
CREATE INDEX events_memory ON {memory}.events (tenant, id);
CREATE INDEX events_target ON {memory}.events (tenant, target) WHERE target IS NOT NULL;
CREATE INDEX events_undone ON {memory}.events (tenant) WHERE undone_at IS NOT NULL;
