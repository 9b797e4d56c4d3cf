-- The latest outcomes, of a tenant and of a memory: what seems to harm is asked by them.
CREATE INDEX exposures_settled ON {memory}.exposures (tenant, settled_at DESC)
    WHERE succeeded IS NOT NULL;
CREATE INDEX exposures_memory_settled ON {memory}.exposures (tenant, id, settled_at DESC)
    WHERE succeeded IS NOT NULL;
