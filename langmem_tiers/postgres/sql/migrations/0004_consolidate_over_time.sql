-- Truth over time: when what a memory says was true, and since when its state has been known.
ALTER TABLE {memory}.memories
    ADD COLUMN valid_from timestamptz,
    ADD COLUMN valid_to   timestamptz,
    ADD COLUMN state_at   timestamptz;

-- What somebody derived from another memory depends on it, and does not stand in its place.
ALTER TABLE {memory}.lineage ADD COLUMN derived boolean NOT NULL DEFAULT false;

-- When the strength was last brought up to date: by an access, or by a cycle.
ALTER TABLE {memory}.usage ADD COLUMN strength_at timestamptz;
UPDATE {memory}.usage SET strength_at = last_accessed_at WHERE last_accessed_at IS NOT NULL;

-- What no outcome came of, oldest first: the sweep forgets it.
CREATE INDEX exposures_open ON {memory}.exposures (exposed_at) WHERE succeeded IS NULL;

-- Who may consolidate a tenant, until when. The fence grows with each holder.
CREATE TABLE {memory}.leases (
    tenant text COLLATE "C" NOT NULL PRIMARY KEY,
    holder text COLLATE "C" NOT NULL,
    fence  bigint NOT NULL,
    until  timestamptz NOT NULL
);

-- Up to when each step of consolidation has seen everything.
CREATE TABLE {memory}.cycles (
    tenant text COLLATE "C" NOT NULL,
    step   text COLLATE "C" NOT NULL,
    seen   timestamptz NOT NULL,
    PRIMARY KEY (tenant, step)
);

-- Archive files, and the memories that are in them and nowhere else.
CREATE TABLE {memory}.archives (
    tenant      text COLLATE "C" NOT NULL,
    archive     text COLLATE "C" NOT NULL,
    url         text NOT NULL,
    checksum    text NOT NULL,
    memories    bigint NOT NULL,
    archived_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, archive)
);
CREATE TABLE {memory}.archived (
    tenant    text COLLATE "C" NOT NULL,
    id        bigint NOT NULL,
    tier      {memory}.tier NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    archive   text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX archived_keys ON {memory}.archived (tenant, key);
CREATE INDEX archived_files ON {memory}.archived (tenant, archive);
