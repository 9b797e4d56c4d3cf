-- The handle of a memory, the short id by which it is shown: of a hash of its namespace and key.
CREATE FUNCTION {memory}.handle(tenant text, namespace text, key text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$
    SELECT translate(
        left(encode(sha256(convert_to(tenant || '.' || namespace || chr(10) || key, 'UTF8')), 'base64'), 6),
        '+/ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'xyabcdefghijklmnopqrstuvwxyz'
    )
$$;
-- The handle comes first: no statement that names a tenant alone is to take the last index for it.
CREATE INDEX memories_handles ON {memory}.memories ({memory}.handle(tenant, namespace, key), tenant);
-- What somebody pinned; few are.
CREATE INDEX memories_pinned ON {memory}.memories (tenant, namespace) WHERE value @> '{"pinned": true}';

-- The keys of the memories that have one of these handles, of the tenant that the transaction names: behind
-- the wall no index is read by a function.
CREATE FUNCTION {memory}.of_handles(handles text[]) RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT m.key FROM {memory}.memories m
    WHERE m.tenant = nullif(current_setting('langmem_tiers.tenant', true), '')
      AND {memory}.handle(m.tenant, m.namespace, m.key) = ANY (handles)
$$;
REVOKE ALL ON FUNCTION {memory}.of_handles FROM PUBLIC;

-- The ids of what is pinned, in the same way.
CREATE FUNCTION {memory}.of_pins() RETURNS SETOF bigint
LANGUAGE sql STABLE SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT m.id FROM {memory}.memories m
    WHERE m.tenant = nullif(current_setting('langmem_tiers.tenant', true), '') AND m.value @> '{"pinned": true}'
$$;
REVOKE ALL ON FUNCTION {memory}.of_pins FROM PUBLIC;
