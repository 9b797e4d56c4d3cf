-- The vectors of this database, one row a (memory, field), beside the memories so that a memory's
-- own row can change without touching a vector index. Setup runs this when the first index is
-- configured, and again if the shape changes while the tables are empty; documents.sql follows.
DROP VIEW IF EXISTS {short_term}.documents, {working}.documents, {long_term}.documents;
DROP TABLE IF EXISTS {memory}.vectors;

CREATE TABLE {memory}.vectors (
    tenant    text COLLATE "C" NOT NULL,
    tier      {memory}.tier NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    id        bigint NOT NULL,
    field     text COLLATE "C" NOT NULL,
    embedding {vector} STORAGE {storage} NOT NULL,
    -- Exact search reads this index alone: the vectors of a namespace lie side by side.
    PRIMARY KEY (tenant, namespace, id, field, tier) {covering}
) PARTITION BY LIST (tier);

CREATE TABLE {short_term}.vectors PARTITION OF {memory}.vectors FOR VALUES IN ('short_term');
CREATE TABLE {working}.vectors PARTITION OF {memory}.vectors FOR VALUES IN ('working');
CREATE TABLE {long_term}.vectors PARTITION OF {memory}.vectors FOR VALUES IN ('long_term');
