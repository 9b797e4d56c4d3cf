DROP INDEX CONCURRENTLY IF EXISTS {schema}.{index};
CREATE INDEX CONCURRENTLY {index} ON {schema}.vectors
USING hnsw (embedding {opclass}) WITH (m = {m}, ef_construction = {ef_construction});
