-- The memories that hold what is sought, of the tenant that the transaction names and of no other,
-- whatever is given. `@@` may not be tried on rows behind a wall, as it is not leakproof, so no index
-- of words would be read there: this reads it with the rights of the schema's owner, and adds the
-- tenant by itself, as a lexeme and as a condition. `low` and `high` bound the namespaces, where given.
CREATE FUNCTION {memory}.with_words(
    wanted_tier {memory}.tier, sought tsquery, low text, high text, most bigint
) RETURNS SETOF {memory}.memories
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own constant text := nullif(current_setting('langmem_tiers.tenant', true), '');
    own_words constant tsquery := (
        '''' || replace(replace(chr(1) || own, '\', '\\'), '''', '''''') || ''''
    )::tsquery && sought;
BEGIN
    IF wanted_tier IS NULL THEN
        RETURN QUERY SELECT m.* FROM {memory}.memories m
        WHERE m.lexemes @@ own_words AND (m.tenant || '') = own
          AND (low IS NULL OR m.namespace >= low) AND (high IS NULL OR m.namespace < high)
        LIMIT most;
    ELSE
        RETURN QUERY SELECT m.* FROM {memory}.memories m
        WHERE m.tier = wanted_tier AND m.lexemes @@ own_words AND (m.tenant || '') = own
          AND (low IS NULL OR m.namespace >= low) AND (high IS NULL OR m.namespace < high)
        LIMIT most;
    END IF;
END
$$;

-- The same of events, by what stands in their details: `->>` is not leakproof either. How turns ended, the
-- latest first, of a session, of a project or of all, as far as who asks is told of them.
CREATE FUNCTION {memory}.ended_turns(
    in_project text, in_session text, asker text, most bigint
) RETURNS SETOF {memory}.events
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 20
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own constant text := nullif(current_setting('langmem_tiers.tenant', true), '');
BEGIN
    IF in_session IS NOT NULL THEN
        RETURN QUERY SELECT e.* FROM {memory}.events e
        WHERE e.tenant = own AND e.kind IN ('committed', 'abandoned')
          AND e.detail ? 'session_id' AND e.detail ->> 'session_id' = in_session
          AND (in_project IS NULL OR e.detail ->> 'project_id' = in_project)
          AND NOT (e.detail ? 'user_id' AND e.detail ->> 'user_id' IS DISTINCT FROM asker)
        ORDER BY e.at DESC, e.event DESC LIMIT most;
    ELSIF in_project IS NOT NULL THEN
        RETURN QUERY SELECT e.* FROM {memory}.events e
        WHERE e.tenant = own AND e.kind IN ('committed', 'abandoned')
          AND e.detail ? 'project_id' AND e.detail ->> 'project_id' = in_project
          AND NOT (e.detail ? 'user_id' AND e.detail ->> 'user_id' IS DISTINCT FROM asker)
        ORDER BY e.at DESC, e.event DESC LIMIT most;
    ELSE
        RETURN QUERY SELECT e.* FROM {memory}.events e
        WHERE e.tenant = own AND e.kind IN ('committed', 'abandoned')
          AND NOT (e.detail ? 'user_id' AND e.detail ->> 'user_id' IS DISTINCT FROM asker)
        ORDER BY e.at DESC, e.event DESC LIMIT most;
    END IF;
END
$$;
-- What was rejected or made room, by the key that it had.
CREATE FUNCTION {memory}.gone(by_key text) RETURNS SETOF {memory}.events
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY SELECT e.* FROM {memory}.events e
    WHERE e.tenant = nullif(current_setting('langmem_tiers.tenant', true), '')
      AND e.kind IN ('rejected', 'evicted') AND e.detail ->> 'key' = by_key;
END
$$;
REVOKE ALL ON FUNCTION {memory}.with_words, {memory}.ended_turns, {memory}.gone FROM PUBLIC;

-- The neighbours of a turn, as before: behind a wall an index that knows sessions by CASE is read, and one
-- that knows them by coalesce is not.
DROP INDEX {memory}.memories_neighbours;
CREATE INDEX memories_neighbours ON {memory}.memories
    (tenant, namespace, (CASE WHEN session IS NULL THEN '' ELSE session END), turn)
    WHERE turn IS NOT NULL;

-- Whether whoever asks sees any row of a table; a table that it may not read shows none.
CREATE FUNCTION {memory}.sees_rows(of_table regclass) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    seen boolean;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM %s)', of_table) INTO seen;
    RETURN seen;
EXCEPTION WHEN insufficient_privilege THEN
    RETURN false;
END
$$;
