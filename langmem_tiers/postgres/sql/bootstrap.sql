CREATE EXTENSION IF NOT EXISTS vector;
CREATE SCHEMA IF NOT EXISTS {memory};
-- The migrations that have run here, each with the checksum of its file.
CREATE TABLE IF NOT EXISTS {memory}.migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL
);
