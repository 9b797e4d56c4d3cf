-- What few of a large tenant's memories are: those that one of its users sees, and those of a type. The user
-- comes first: it is the last index, which of those that seem to cost the same Postgres takes while tables
-- are empty, and no statement but those of recall asks it for the user in this form.
CREATE INDEX memories_kinds ON {memory}.memories
    ((CASE WHEN user_id IS NULL THEN '' ELSE user_id END), tenant,
     (left(coalesce(value ->> 'memory_type', 'episodic'), 100) || ''));
-- A plan for any user and any type knows only how many there are of these: of two types it would take each
-- for half, and read all of the tenant instead. Without statistics it takes them for few, as they are here.
DO $few$
DECLARE
    part regclass;
BEGIN
    FOR part IN SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = '{memory}.memories_kinds'::regclass LOOP
        EXECUTE format('ALTER INDEX %s ALTER COLUMN 1 SET STATISTICS 0', part);
        EXECUTE format('ALTER INDEX %s ALTER COLUMN 3 SET STATISTICS 0', part);
    END LOOP;
END
$few$;

-- The ids of a type's memories that somebody sees, of the tenant that the transaction names and of no other, so many at
-- most; they are looked at again by who asks. Behind the wall no index is read by `->>`, which is not
-- leakproof.
CREATE FUNCTION {memory}.of_type(wanted_tier {memory}.tier, memory_type text, asker text, most bigint)
RETURNS SETOF bigint
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
          AND left(coalesce(m.value ->> 'memory_type', 'episodic'), 100) || '' = left(of_type.memory_type, 100)
        OFFSET 0
    ) m
    LIMIT most;
END
$$;
REVOKE ALL ON FUNCTION {memory}.of_type FROM PUBLIC;
