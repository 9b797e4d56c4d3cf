-- What was forgotten, as far as that has to be known: nothing here is a text of it.
-- The key of a tenant's hashes. Without it nobody can try out what a hash may be of.
CREATE TABLE {memory}.tombstone_keys (
    tenant text COLLATE "C" NOT NULL PRIMARY KEY,
    secret bytea NOT NULL
);
-- Keyed hashes of contents that no import and no archive brings back.
CREATE TABLE {memory}.tombstones (
    tenant       text COLLATE "C" NOT NULL,
    hash         bytea NOT NULL,
    forgotten_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, hash)
);
-- What was forgotten when: a receipt, the keyed hash of what was asked, and what is to be removed
-- still, as it is in no table: archive files and the threads of a checkpointer.
CREATE TABLE {memory}.forgettings (
    tenant  text COLLATE "C" NOT NULL,
    receipt text COLLATE "C" NOT NULL,
    asked   text COLLATE "C" NOT NULL,
    at      timestamptz NOT NULL,
    detail  jsonb NOT NULL,
    files   text[] NOT NULL,
    threads text[] NOT NULL,
    PRIMARY KEY (tenant, receipt)
);
CREATE INDEX forgettings_asked ON {memory}.forgettings (tenant, asked);
