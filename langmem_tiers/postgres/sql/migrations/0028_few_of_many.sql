-- What few of a large tenant's memories are: those that one of its users sees, and those of a type.
CREATE INDEX memories_kinds ON {memory}.memories
    (tenant, (CASE WHEN user_id IS NULL THEN '' ELSE user_id END),
     (coalesce(value ->> 'memory_type', 'episodic')));

-- The ids of a type's memories that somebody sees, of the tenant that the transaction names and of no other:
-- behind the wall no index is read by `->>`, which is not leakproof.
CREATE FUNCTION {memory}.of_type(wanted_tier {memory}.tier, memory_type text, asker text) RETURNS SETOF bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own constant text := nullif(current_setting('langmem_tiers.tenant', true), '');
BEGIN
    RETURN QUERY SELECT m.id
    FROM (SELECT '' AS user_id UNION SELECT asker) w
    CROSS JOIN LATERAL (
        SELECT m.id FROM {memory}.memories m
        WHERE m.tenant = own AND m.tier = wanted_tier
          AND CASE WHEN m.user_id IS NULL THEN '' ELSE m.user_id END = w.user_id
          AND coalesce(m.value ->> 'memory_type', 'episodic') = of_type.memory_type
        OFFSET 0
    ) m;
END
$$;
REVOKE ALL ON FUNCTION {memory}.of_type FROM PUBLIC;
