-- Who did what to which memory, and when: a log that nobody but its functions writes, chained by hashes.
-- `told` says it in clear: who, namespace, key, user. `value_hash` and, once `told` is forgotten,
-- `told_hash` are hashes under the row's own `salt`, which forgetting destroys with `told`.
CREATE SEQUENCE {memory}.audit_ids;
CREATE TABLE {memory}.audit (
    tenant     text COLLATE "C" NOT NULL,
    id         bigint NOT NULL,
    -- The transaction that wrote it; the first row of each of its statements is marked.
    xact       xid8 NOT NULL,
    opens      boolean NOT NULL,
    at         timestamptz NOT NULL,
    verb       text COLLATE "C" NOT NULL,
    memories   bigint[] NOT NULL,
    told       jsonb,
    told_hash  bytea,
    salt       bytea,
    value_hash bytea,
    hash       bytea NOT NULL,
    PRIMARY KEY (tenant, id)
);
-- What a transaction wrote, as long as it is to be chained.
CREATE INDEX audit_opened ON {memory}.audit (xact) WHERE opens;
-- A link for each transaction of a tenant: the ids of its rows, and the hash of the link before, of these
-- ids and of the hashes of these rows.
CREATE TABLE {memory}.audit_links (
    tenant text COLLATE "C" NOT NULL,
    seq    bigint NOT NULL,
    ids    int8multirange NOT NULL,
    hash   bytea NOT NULL,
    PRIMARY KEY (tenant, seq)
);

-- A hash of data under a key of 16 bytes. The outer one keeps anybody from prolonging the data.
CREATE FUNCTION {memory}.audit_keyed(salt bytea, data text) RETURNS bytea
LANGUAGE sql STABLE AS $$ SELECT sha256(salt || sha256(salt || convert_to(data, 'UTF8'))) $$;
-- The hash of a row: of all of it but what forgetting takes, of which it has the hash.
CREATE FUNCTION {memory}.audit_hash(
    tenant text, id bigint, xact xid8, opens boolean, at timestamptz, verb text, memories bigint[],
    told_hash bytea, value_hash bytea
) RETURNS bytea LANGUAGE sql STABLE AS $$
    SELECT sha256(convert_to(
        encode(told_hash, 'hex') || ' ' || coalesce(encode(value_hash, 'hex'), '-') || ' '
        || id || ' ' || xact::text || ' ' || opens::text || ' ' || extract(epoch FROM at) || ' '
        || memories::text || ' ' || length(verb) || ' ' || verb || ' ' || tenant, 'UTF8'))
$$;
-- Who writes: the role that logged in, and who the application says it is.
CREATE FUNCTION {memory}.audit_who() RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object(
        'role', session_user, 'actor', nullif(current_setting('langmem_tiers.actor', true), '')))
$$;

-- What each statement did to memories, whoever sent it, partitions too: a function and triggers for each kind.
DO $audit$
DECLARE
    one record;
    of_table text;
BEGIN
    FOR one IN SELECT * FROM (VALUES
        ('insert', 'added', 'NEW TABLE AS added',
         $$ SELECT n.tenant, n.id, n.namespace, n.key, n.user_id, n.value, 'write' AS verb,
                   '{}'::jsonb AS more FROM added n $$),
        ('delete', 'removed', 'OLD TABLE AS removed',
         $$ SELECT o.tenant, o.id, o.namespace, o.key, o.user_id, o.value,
                   CASE WHEN o.expires_at <= moment THEN 'expire' ELSE 'delete' END AS verb,
                   '{}'::jsonb AS more FROM removed o $$),
        -- A full join is never a loop within a loop. What an id or a tenant was taken from is gone there.
        ('update', 'added', 'OLD TABLE AS removed NEW TABLE AS added',
         $$ SELECT coalesce(n.tenant, o.tenant) AS tenant, coalesce(n.id, o.id) AS id,
                   coalesce(n.namespace, o.namespace) AS namespace, coalesce(n.key, o.key) AS key,
                   CASE WHEN n.id IS NULL THEN o.user_id ELSE n.user_id END AS user_id,
                   coalesce(n.value, o.value) AS value,
                   CASE WHEN o.id IS NULL THEN 'write' WHEN n.id IS NULL THEN 'delete'
                        WHEN o.state = 'quarantined' AND n.state IS DISTINCT FROM o.state THEN 'release'
                        WHEN (n.value, n.namespace, n.key, n.user_id, n.session, n.speaker, n.occurred_at)
                             IS DISTINCT FROM (o.value, o.namespace, o.key, o.user_id, o.session, o.speaker,
                                               o.occurred_at) THEN 'overwrite'
                        WHEN n.tier <> o.tier THEN 'move' ELSE 'mark' END AS verb,
                   jsonb_strip_nulls(jsonb_build_object(
                       'tier', CASE WHEN n.tier <> o.tier THEN n.tier END,
                       'state', CASE WHEN n.state IS DISTINCT FROM o.state AND n.id = o.id
                                THEN coalesce(n.state, 'current') END)) AS more
            FROM removed o FULL JOIN added n ON n.tenant = o.tenant AND n.id = o.id
            WHERE (n.id, n.tier, n.state, n.value, n.namespace, n.key, n.user_id, n.session, n.speaker,
                   n.occurred_at, n.valid_from, n.valid_to)
                  IS DISTINCT FROM (o.id, o.tier, o.state, o.value, o.namespace, o.key, o.user_id, o.session,
                                    o.speaker, o.occurred_at, o.valid_from, o.valid_to) $$)
    ) AS kind (name, looked_at, tables, changes) LOOP
        EXECUTE format($function$
            CREATE FUNCTION {memory}.audit_%1$s() RETURNS trigger
            LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
            AS $body$
            DECLARE
                moment timestamptz;
                who jsonb;
            BEGIN
                IF NOT EXISTS (SELECT FROM %3$s) THEN
                    RETURN NULL;
                END IF;
                moment := clock_timestamp();
                who := {memory}.audit_who();
                INSERT INTO {memory}.audit
                    (tenant, id, xact, opens, at, verb, memories, told, salt, value_hash, hash)
                SELECT h.tenant, h.entry, pg_current_xact_id(), h.opens, moment, h.verb, h.memories, h.told,
                       h.salt, h.value_hash, {memory}.audit_hash(
                           h.tenant, h.entry, pg_current_xact_id(), h.opens, moment, h.verb, h.memories,
                           {memory}.audit_keyed(h.salt, h.told::text), h.value_hash)
                FROM (
                    SELECT s.tenant, s.entry, s.opens, s.verb, ARRAY[s.id] AS memories, s.told, s.salt,
                           {memory}.audit_keyed(s.salt, s.value::text) AS value_hash
                    FROM (
                        SELECT c.tenant, c.id, c.verb, c.value,
                               who || c.more || jsonb_build_object('namespace', c.namespace, 'key', c.key)
                               || CASE WHEN c.user_id IS NULL THEN '{}' ELSE
                                  jsonb_build_object('user', c.user_id) END AS told,
                               nextval('{memory}.audit_ids') AS entry,
                               uuid_send(gen_random_uuid()) AS salt,
                               lag(c.tenant) OVER (ORDER BY c.tenant, c.id) IS DISTINCT FROM c.tenant AS opens
                        FROM (%2$s) c OFFSET 0
                    ) s OFFSET 0
                ) h;
                RETURN NULL;
            END
            $body$ $function$, one.name, one.changes, one.looked_at);
        FOREACH of_table IN ARRAY ARRAY['{memory}', '{short_term}', '{working}', '{long_term}'] LOOP
            EXECUTE format(
                'CREATE TRIGGER audit_%1$s AFTER %1$s ON %2$I.memories REFERENCING %3$s '
                'FOR EACH STATEMENT EXECUTE FUNCTION {memory}.audit_%1$s()',
                one.name, of_table, one.tables);
        END LOOP;
    END LOOP;
END
$audit$;

-- Chain what the transaction wrote, as it commits: no other lock is waited for behind those of the chains,
-- which are taken in order. The first of its statements does that for all; the others find it done. Rows
-- that are brought back from elsewhere have their links.
CREATE FUNCTION {memory}.audit_chained() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (
        SELECT l.ids @> NEW.id FROM {memory}.audit_links l WHERE l.tenant = NEW.tenant
        ORDER BY l.seq DESC LIMIT 1
    ) THEN
        RETURN NULL;  -- done
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('{memory}.audit'), b.bucket) FROM (
        SELECT DISTINCT hashtext(a.tenant) & 4095 AS bucket FROM {memory}.audit a
        WHERE a.opens AND a.xact = NEW.xact AND a.id >= NEW.id ORDER BY 1 OFFSET 0
    ) b;
    INSERT INTO {memory}.audit_links (tenant, seq, ids, hash)
    SELECT t.tenant, coalesce(l.seq, 0) + 1, r.ids, sha256(
        coalesce(l.hash, decode(repeat('00', 32), 'hex')) || r.hash
        || convert_to(coalesce(l.seq, 0) + 1 || ' ' || r.ids::text || ' ' || t.tenant, 'UTF8'))
    FROM (
        SELECT a.tenant, min(a.id) AS first FROM {memory}.audit a
        WHERE a.opens AND a.xact = NEW.xact AND a.id >= NEW.id GROUP BY a.tenant
    ) t
    LEFT JOIN LATERAL (
        SELECT l.seq, l.ids, l.hash FROM {memory}.audit_links l WHERE l.tenant = t.tenant
        ORDER BY l.seq DESC LIMIT 1
    ) l ON true
    CROSS JOIN LATERAL (
        SELECT range_agg(int8range(a.id, a.id, '[]')) AS ids,
               sha256(string_agg(a.hash, '' ORDER BY a.id)) AS hash
        FROM {memory}.audit a WHERE a.tenant = t.tenant AND a.id >= t.first AND a.xact = NEW.xact
    ) r
    WHERE NOT coalesce(l.ids @> t.first, false);
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER audit_chained AFTER INSERT ON {memory}.audit
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.opens AND NEW.xact = pg_current_xact_id())
    EXECUTE FUNCTION {memory}.audit_chained();

-- Add one row about memories of the tenant that the transaction names, and of no other.
CREATE FUNCTION {memory}.audit_add(verb text, memories bigint[], told jsonb) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO {memory}.audit (tenant, id, xact, opens, at, verb, memories, told, salt, hash)
    SELECT n.tenant, n.id, pg_current_xact_id(), true, n.at, verb, memories, told, n.salt,
           {memory}.audit_hash(n.tenant, n.id, pg_current_xact_id(), true, n.at, verb, memories,
                               {memory}.audit_keyed(n.salt, told::text), NULL)
    FROM (
        SELECT nullif(current_setting('langmem_tiers.tenant', true), '') AS tenant, clock_timestamp() AS at,
               nextval('{memory}.audit_ids') AS id, uuid_send(gen_random_uuid()) AS salt OFFSET 0
    ) n
$$;
-- That somebody was shown these memories. Who forgets one of them meanwhile waits, and then takes this too.
CREATE FUNCTION {memory}.audit_read(ids bigint[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT {memory}.audit_add('read', array_agg(m.id), {memory}.audit_who() || jsonb_build_object(
        'read', jsonb_agg(jsonb_build_array(m.namespace, m.key))))
    FROM (
        SELECT m.id, m.namespace, m.key FROM (SELECT DISTINCT unnest(ids) AS id ORDER BY 1) w
        CROSS JOIN LATERAL (
            SELECT m.id, m.namespace, m.key FROM {memory}.memories m
            WHERE m.tenant = nullif(current_setting('langmem_tiers.tenant', true), '') AND m.id = w.id
            LIMIT 1 FOR KEY SHARE OF m
        ) m
    ) m
    HAVING count(*) > 0
$$;
-- That these memories were forgotten; NULL are all of the tenant's. Their rows, and these entries, lose what
-- they told and the keys of their hashes. Ids that the log has nowhere are none. A row that all were forgotten
-- has no actor, so that nobody has to empty it but who forgets all again: no other row could say why.
CREATE FUNCTION {memory}.audit_forget(ids bigint[], entries bigint[], named boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own constant text := nullif(current_setting('langmem_tiers.tenant', true), '');
    gone constant bigint[] := CASE WHEN ids IS NULL THEN '{}' ELSE ARRAY(
        SELECT DISTINCT m.id FROM {memory}.audit a CROSS JOIN unnest(a.memories) AS m (id)
        WHERE a.tenant = own
          AND (m.id IN (SELECT unnest(ids)) OR a.id IN (SELECT unnest(entries)))
        ORDER BY 1) END;
BEGIN
    UPDATE {memory}.audit a
    SET told = NULL, salt = NULL, told_hash = {memory}.audit_keyed(a.salt, a.told::text)
    WHERE a.tenant = own AND a.told IS NOT NULL
      AND (ids IS NULL OR a.memories && gone
                          AND (a.verb <> 'forget' OR a.id IN (SELECT unnest(entries))));
    IF ids IS NULL OR gone <> '{}' THEN
        PERFORM {memory}.audit_add('forget', gone, CASE
            WHEN named AND ids IS NOT NULL THEN {memory}.audit_who()
            ELSE {memory}.audit_who() - 'actor' END);
    END IF;
END
$$;
REVOKE ALL ON FUNCTION {memory}.audit_insert, {memory}.audit_update, {memory}.audit_delete,
    {memory}.audit_chained, {memory}.audit_add, {memory}.audit_read, {memory}.audit_forget FROM PUBLIC;
