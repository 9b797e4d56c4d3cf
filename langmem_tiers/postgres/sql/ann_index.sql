CREATE INDEX CONCURRENTLY IF NOT EXISTS {index} ON {schema}.vectors
USING hnsw (embedding {opclass}) WITH (m = {m}, ef_construction = {ef_construction})
