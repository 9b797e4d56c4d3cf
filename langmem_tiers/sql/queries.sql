-- Every statement of the package. A header names each; {braces} are filled once, when the
-- statements are loaded; %(names)s are parameters.
-- {places}: keys to look up, and {few}: always true of them, but lets the planner expect one
-- row, so that plans made while the tables were small go by the keys and stay right.
-- {legs}: the statement's leg, once a tier.
-- {m_scope}, {v_scope}: loaded for each scope: NAME_tenant, NAME_prefix (a range of one tenant's
-- namespaces) and NAME_everywhere. {filter}: loaded without, and with as NAME_filtered_SCOPE.

-- name: get
-- One memory by namespace and key, in whichever tier it lives. Whether it has expired is for
-- the caller to see: the fewer parameters, the faster.
SELECT m.tenant, m.namespace, m.key, m.value, m.created_at, m.updated_at,
       m.tier::text, m.expires_at, m.ttl_minutes, m.id
FROM {memory}.memories m
WHERE m.tenant = %(tenant)s AND m.namespace = %(namespace)s AND m.key = %(key)s;

-- name: get_many
-- The same for many keys. Rows are matched to the keys by namespace and key, not by order.
SELECT m.tenant, m.namespace, m.key, m.value, m.created_at, m.updated_at,
       m.tier::text, m.expires_at, m.ttl_minutes, m.id
FROM {places}
JOIN {memory}.memories m
  ON m.tenant = w.tenant AND m.namespace = w.namespace AND m.key = w.key
WHERE {few};

-- name: count_accesses
-- Add up what was read since the last time. These counts may be lost in a crash, so their
-- commit is not waited for.
INSERT INTO {memory}.usage AS u (tenant, id, access_count, last_accessed_at)
SELECT a.tenant, a.id, a.accesses, %(now)s::timestamptz
FROM unnest(%(tenants)s::text[], %(ids)s::bigint[], %(counts)s::int[]) AS a (tenant, id, accesses)
WHERE EXISTS (SELECT FROM {memory}.memories m WHERE m.tenant = a.tenant AND m.id = a.id)
ORDER BY a.tenant, a.id
ON CONFLICT (tenant, id) DO UPDATE
SET access_count = u.access_count + excluded.access_count,
    last_accessed_at = greatest(u.last_accessed_at, excluded.last_accessed_at)
RETURNING set_config('synchronous_commit', 'off', true);

-- name: extend
-- Slide the expiry of memories that were just read. A row that another writer holds is left
-- to that writer.
WITH due AS MATERIALIZED (
    SELECT m.tenant, m.id, m.tier
    FROM unnest(%(tenants)s::text[], %(ids)s::bigint[])
             WITH ORDINALITY AS w (tenant, id, ord)
    JOIN {memory}.memories m ON m.tenant = w.tenant AND m.id = w.id
    WHERE {few} AND m.ttl_minutes IS NOT NULL
    FOR NO KEY UPDATE OF m SKIP LOCKED
)
UPDATE {memory}.memories m
SET expires_at = %(now)s::timestamptz + m.ttl_minutes * interval '1 minute'
FROM due d
WHERE m.tenant = d.tenant AND m.id = d.id AND m.tier = d.tier
RETURNING set_config('synchronous_commit', 'off', true);

-- name: lock_keys
-- Writers of one key wait for each other; buckets are taken in order, so none waits in a ring.
SELECT pg_advisory_xact_lock(%(lock)s::int, b.bucket) FROM unnest(%(buckets)s::int[]) AS b (bucket);

-- name: conflicts
-- Keys that live in another tier than the one they are put through.
SELECT m.tenant, m.namespace, m.key, m.tier::text
FROM {places}
JOIN {memory}.memories m
  ON m.tenant = w.tenant AND m.namespace = w.namespace AND m.key = w.key
WHERE {few} AND m.tier <> %(tier)s::{memory}.tier
  AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
LIMIT 1;

-- name: put
-- Update each memory where it lives, or insert it into the tier asked for. `ttl` is minutes:
-- NULL takes the tier's own, Infinity never expires. Ids are given in the order of keys, so
-- that ties of one batch are broken by key.
WITH input AS MATERIALIZED (
    SELECT i.tenant, i.namespace, i.key, i.value::jsonb AS value, i.ttl,
           CASE WHEN i.text <> '' THEN to_tsvector(%(language)s::regconfig, i.text)
                || array_to_tsvector(ARRAY[chr(1) || i.tenant]) END AS lexemes
    FROM unnest(%(tenants)s::text[], %(namespaces)s::text[], %(keys)s::text[],
                %(values)s::text[], %(texts)s::text[], %(ttls)s::float8[])
             WITH ORDINALITY AS i (tenant, namespace, key, value, text, ttl, ord)
    WHERE i.ord > 0 AND i.ord < 1000000000
), life AS (
    SELECT t.tier, t.minutes
    FROM unnest(%(tiers)s::{memory}.tier[], %(tier_ttls)s::float8[]) AS t (tier, minutes)
), updated AS (
    UPDATE {memory}.memories m
    SET value = i.value,
        lexemes = i.lexemes,
        updated_at = greatest(%(now)s::timestamptz, m.updated_at + interval '1 microsecond'),
        ttl_minutes = nullif(coalesce(i.ttl, life.minutes), 'Infinity'),
        expires_at = %(now)s::timestamptz
            + nullif(coalesce(i.ttl, life.minutes), 'Infinity') * interval '1 minute'
    FROM input i, life
    WHERE m.tenant = i.tenant AND m.namespace = i.namespace AND m.key = i.key
      AND life.tier = m.tier
    RETURNING m.tenant, m.namespace, m.key
)
INSERT INTO {memory}.memories
    (tenant, tier, namespace, key, value, lexemes, created_at, updated_at, ttl_minutes, expires_at)
SELECT i.tenant, life.tier, i.namespace, i.key, i.value, i.lexemes,
       %(now)s::timestamptz, %(now)s::timestamptz,
       nullif(coalesce(i.ttl, life.minutes), 'Infinity'),
       %(now)s::timestamptz
           + nullif(coalesce(i.ttl, life.minutes), 'Infinity') * interval '1 minute'
FROM input i
JOIN life ON life.tier = %(tier)s::{memory}.tier
WHERE NOT EXISTS (
    SELECT FROM updated u
    WHERE u.tenant = i.tenant AND u.namespace = i.namespace AND u.key = i.key
)
ORDER BY i.tenant, i.namespace, i.key;

-- name: delete_vectors
-- Forget the vectors of these memories, before their new ones are written.
DELETE FROM {memory}.vectors v
USING {places}
CROSS JOIN LATERAL (
    SELECT m.tenant, m.tier, m.namespace, m.id FROM {memory}.memories m
    WHERE m.tenant = w.tenant AND m.namespace = w.namespace AND m.key = w.key
    LIMIT 1
) m
WHERE {few} AND v.tenant = m.tenant AND v.tier = m.tier AND v.namespace = m.namespace AND v.id = m.id;

-- name: put_vectors
INSERT INTO {memory}.vectors (tenant, tier, namespace, id, field, embedding)
SELECT m.tenant, m.tier, m.namespace, m.id, i.field, i.embedding
FROM unnest(%(tenants)s::text[], %(namespaces)s::text[], %(keys)s::text[],
            %(fields)s::text[], %(embeddings)s::{vector_type}[])
         WITH ORDINALITY AS i (tenant, namespace, key, field, embedding, ord)
CROSS JOIN LATERAL (
    SELECT m.tenant, m.tier, m.namespace, m.id FROM {memory}.memories m
    WHERE m.tenant = i.tenant AND m.namespace = i.namespace AND m.key = i.key
    LIMIT 1
) m
WHERE i.ord > 0 AND i.ord < 1000000000;

-- name: delete
-- Remove memories with everything that hangs on them; with `expired_by`, only those dead then.
WITH gone AS (
    DELETE FROM {memory}.memories m
    USING {places}
    WHERE {few} AND m.tenant = w.tenant AND m.namespace = w.namespace AND m.key = w.key
      AND m.tier = ANY (%(tiers)s::{memory}.tier[])
      AND (%(expired_by)s::timestamptz IS NULL OR m.expires_at <= %(expired_by)s::timestamptz)
    RETURNING m.tenant, m.tier, m.namespace, m.id
), vectors AS (
    DELETE FROM {memory}.vectors v USING gone g
    WHERE v.tenant = g.tenant AND v.tier = g.tier AND v.namespace = g.namespace AND v.id = g.id
), counters AS (
    SELECT u.tenant, u.id FROM {memory}.usage u JOIN gone g ON u.tenant = g.tenant AND u.id = g.id
    ORDER BY u.tenant, u.id FOR UPDATE OF u
)
DELETE FROM {memory}.usage u USING counters c WHERE u.tenant = c.tenant AND u.id = c.id;

-- name: sweep
-- Remove a batch of expired memories with everything that hangs on them. Answers the count.
-- The size of a batch is written out, so that the planner knows how few rows it is about.
WITH expired AS MATERIALIZED (
    SELECT m.tenant, m.tier, m.id FROM {memory}.memories m
    WHERE m.expires_at <= %(now)s
    ORDER BY m.expires_at
    LIMIT 200
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM {memory}.memories m USING expired e
    WHERE m.tenant = e.tenant AND m.tier = e.tier AND m.id = e.id
    RETURNING m.tenant, m.tier, m.namespace, m.id
), vectors AS (
    DELETE FROM {memory}.vectors v USING gone g
    WHERE v.tenant = g.tenant AND v.tier = g.tier AND v.namespace = g.namespace AND v.id = g.id
), counters AS (
    SELECT u.tenant, u.id FROM {memory}.usage u JOIN gone g ON u.tenant = g.tenant AND u.id = g.id
    ORDER BY u.tenant, u.id FOR UPDATE OF u
), uncounted AS (
    DELETE FROM {memory}.usage u USING counters c WHERE u.tenant = c.tenant AND u.id = c.id
)
SELECT count(*) FROM gone;

-- name: move
-- Change a memory's tier; it keeps its id, namespace, key, value, vectors and counters and
-- takes the new tier's life.
WITH moved AS (
    UPDATE {memory}.memories m
    SET tier = %(tier)s::{memory}.tier,
        ttl_minutes = %(ttl)s::float8,
        expires_at = %(now)s::timestamptz + %(ttl)s::float8 * interval '1 minute'
    WHERE m.tenant = %(tenant)s AND m.namespace = %(namespace)s AND m.key = %(key)s
      AND m.tier <> %(tier)s::{memory}.tier
      AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
    RETURNING m.tenant, m.namespace, m.id
), vectors AS (
    UPDATE {memory}.vectors v SET tier = %(tier)s::{memory}.tier FROM moved g
    WHERE v.tenant = g.tenant AND v.namespace = g.namespace AND v.id = g.id
)
SELECT count(*) FROM moved;

-- leg: search_newest
(
    SELECT m.tenant, m.namespace, m.key, m.value, m.created_at, m.updated_at,
           m.tier::text, m.expires_at, m.ttl_minutes, m.id, NULL::float8 AS distance
    FROM {memory}.memories m
    WHERE m.tier = '{tier}' AND '{tier}' = ANY (%(tiers)s::text[]) AND {m_scope} {filter}
      AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
    ORDER BY m.updated_at DESC, m.tenant, m.namespace, m.key
    LIMIT %(wanted)s
)

-- name: search_newest
-- Newest first, without a query.
{legs}
ORDER BY updated_at DESC, tenant, namespace, key
LIMIT %(limit)s OFFSET %(offset)s;

-- leg: search_single
(
    SELECT m.tenant, m.namespace, m.key, m.value, m.created_at, m.updated_at,
           m.tier::text, m.expires_at, m.ttl_minutes, m.id, c.distance
    FROM (
        SELECT v.tenant, v.namespace, v.id,
               (v.embedding {operator} %(query)s::{vector_type}) + 0 AS distance
        FROM {memory}.vectors v
        WHERE v.tier = '{tier}' AND '{tier}' = ANY (%(tiers)s::text[]) AND {v_scope}
        ORDER BY distance, v.id
    ) c
    CROSS JOIN LATERAL (
        SELECT m.tenant, m.namespace, m.key, m.value, m.created_at, m.updated_at,
               m.tier, m.expires_at, m.ttl_minutes, m.id
        FROM {memory}.memories m
        WHERE m.tenant = c.tenant AND m.id = c.id AND m.tier = '{tier}' AND {m_tenant}
          AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s) {filter}
        LIMIT 1
    ) m
    ORDER BY c.distance, c.id
    LIMIT %(wanted)s
)

-- name: search_single
-- search_exact for a first page where memories have one vector each, which saves gathering
-- them. One that has several would come more than once: the caller then asks search_exact.
-- The "+ 0" keeps the planner from the vector index, which would not be exact.
{legs}
ORDER BY distance, id
LIMIT %(limit)s OFFSET %(offset)s;

-- leg: search_exact
(
    SELECT m.tenant, m.namespace, m.key, m.value, m.created_at, m.updated_at,
           m.tier::text, m.expires_at, m.ttl_minutes, m.id, c.distance
    FROM (
        SELECT v.tenant, v.namespace, v.id,
               min(v.embedding {operator} %(query)s::{vector_type}) AS distance
        FROM {memory}.vectors v
        WHERE v.tier = '{tier}' AND '{tier}' = ANY (%(tiers)s::text[]) AND {v_scope}
        GROUP BY v.tenant, v.namespace, v.id
        ORDER BY distance, v.id
    ) c
    CROSS JOIN LATERAL (
        SELECT m.tenant, m.namespace, m.key, m.value, m.created_at, m.updated_at,
               m.tier, m.expires_at, m.ttl_minutes, m.id
        FROM {memory}.memories m
        WHERE m.tenant = c.tenant AND m.id = c.id AND m.tier = '{tier}' AND {m_tenant}
          AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s) {filter}
        LIMIT 1
    ) m
    ORDER BY c.distance, c.id
    LIMIT %(wanted)s
)

-- name: search_exact
-- Nearest first by the configured metric, exact; ties in the order of ids. In each tier the
-- vectors of the scope are read from one index; their memories are looked up in order of
-- distance (LATERAL … LIMIT 1 keeps it at that) and only until the page is full.
{legs}
ORDER BY distance, id
LIMIT %(limit)s OFFSET %(offset)s;

-- name: search_unembedded
-- What has no vector, newest first: it follows what has one, so it begins where that ends.
WITH visible AS (
    SELECT m.*, EXISTS (
        SELECT FROM {memory}.vectors v
        WHERE v.tenant = m.tenant AND v.namespace = m.namespace AND v.id = m.id
          AND v.tier = m.tier
    ) AS embedded
    FROM {memory}.memories m
    WHERE m.tier::text = ANY (%(tiers)s::text[]) AND {m_scope} {filter}
      AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
)
SELECT m.tenant, m.namespace, m.key, m.value, m.created_at, m.updated_at,
       m.tier::text, m.expires_at, m.ttl_minutes, m.id, NULL::float8 AS distance
FROM visible m
WHERE NOT m.embedded
ORDER BY m.updated_at DESC, m.tenant, m.namespace, m.key
LIMIT %(limit)s
OFFSET greatest(0, %(offset)s::bigint - (SELECT count(*) FROM visible WHERE embedded));

-- name: ann_settings
-- For this transaction: look wide, go on while rows are filtered out, and take an index's own
-- order where there is a choice.
SELECT set_config('hnsw.ef_search', %(ef_search)s, true),
       set_config('hnsw.iterative_scan', 'relaxed_order', true),
       set_config('enable_sort', 'off', true);

-- leg: search_ann
(
    SELECT v.tenant, v.tier, v.namespace, v.id,
           (v.embedding {operator} %(query)s::{vector_type}) + 0 AS distance
    FROM {memory}.vectors v {filter_join}
    WHERE v.tier = '{tier}' AND (SELECT NOT p.big FROM probe p WHERE p.tier = '{tier}')
      AND {v_scope} {filter}
    ORDER BY 5
    LIMIT %(candidates)s
)
UNION ALL
(
    SELECT v.tenant, v.tier, v.namespace, v.id,
           v.embedding {operator} %(query)s::{vector_type} AS distance
    FROM {memory}.vectors v {filter_join}
    WHERE v.tier = '{tier}' AND (SELECT p.big FROM probe p WHERE p.tier = '{tier}')
      AND {v_scope} {filter}
    ORDER BY v.embedding {operator} %(query)s::{vector_type}
    LIMIT %(candidates)s
)

-- name: search_ann
-- Nearest first in tiers that have an HNSW index. A scope of few vectors is still searched
-- exactly; the probe stops counting at the limit. The number of candidates does not depend on
-- the page, so that pages neither lose nor repeat. May answer fewer rows than wanted, when a
-- filter is selective or memories have many vectors: the caller then asks search_exact.
WITH probe AS MATERIALIZED (
    SELECT t.tier, (
        SELECT count(*) FROM (
            SELECT FROM {memory}.vectors v WHERE v.tier = t.tier AND {v_scope}
            LIMIT %(exact_limit)s + 1
        ) few
    ) > %(exact_limit)s AS big
    FROM unnest(%(tiers)s::{memory}.tier[]) AS t (tier)
), near AS (
    SELECT c.tenant, c.tier, c.namespace, c.id, min(c.distance) AS distance
    FROM ({legs}) c
    GROUP BY c.tenant, c.tier, c.namespace, c.id
)
SELECT m.tenant, m.namespace, m.key, m.value, m.created_at, m.updated_at,
       m.tier::text, m.expires_at, m.ttl_minutes, m.id, n.distance
FROM near n
JOIN {memory}.memories m
  ON m.tenant = n.tenant AND m.id = n.id AND m.tier = n.tier AND {m_tenant}
WHERE m.expires_at IS NULL OR m.expires_at > %(alive_at)s
ORDER BY n.distance, m.id
LIMIT %(limit)s OFFSET %(offset)s;

-- leg: search_hybrid
(
    SELECT m.tier, m.tenant, m.id
    FROM (
        SELECT v.tenant, v.namespace, v.id,
               min(v.embedding {operator} %(query)s::{vector_type}) AS distance
        FROM {memory}.vectors v
        WHERE v.tier = '{tier}' AND '{tier}' = ANY (%(tiers)s::text[])
          AND %(query)s::{vector_type} IS NOT NULL AND {v_scope}
        GROUP BY v.tenant, v.namespace, v.id
        ORDER BY distance, v.id
    ) c
    CROSS JOIN LATERAL (
        SELECT m.tier, m.tenant, m.id
        FROM {memory}.memories m
        WHERE m.tenant = c.tenant AND m.id = c.id AND m.tier = '{tier}' AND {m_tenant}
          AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s) {filter}
        LIMIT 1
    ) m
    ORDER BY c.distance, c.id
    LIMIT %(candidates)s
)
UNION ALL
(
    SELECT m.tier, m.tenant, m.id
    FROM {memory}.memories m, terms
    WHERE m.tier = '{tier}' AND '{tier}' = ANY (%(tiers)s::text[])
      AND m.lexemes @@ terms.in_scope AND {gin_scope} {filter}
      AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
    ORDER BY ts_rank(m.lexemes, terms.any_of, 0) DESC, m.tenant, m.id
    LIMIT %(candidates)s
)

-- name: search_hybrid
-- The best candidates of both legs, each with both scores: exact vector distance and text
-- rank. A word matches if any of the query's does.
WITH terms AS MATERIALIZED (
    SELECT string_agg({lexeme}, ' | ')::tsquery AS any_of,
           ({tenant_lexeme} || string_agg({lexeme}, ' | ') || ')')::tsquery AS in_scope
    FROM unnest(to_tsvector(%(language)s::regconfig, %(text)s)) AS l
)
SELECT m.tenant, m.namespace, m.key, m.value, m.created_at, m.updated_at,
       m.tier::text, m.expires_at, m.ttl_minutes, m.id,
       (SELECT min(v.embedding {operator} %(query)s::{vector_type}) FROM {memory}.vectors v
        WHERE v.tier = m.tier AND v.tenant = m.tenant AND v.namespace = m.namespace
          AND v.id = m.id) AS distance,
       coalesce(ts_rank(m.lexemes, terms.any_of, 0), 0) AS lexical,
       coalesce(u.access_count, 0) AS access_count
FROM (SELECT DISTINCT tier, tenant, id FROM ({legs}) best) c
JOIN {memory}.memories m
  ON m.tier = c.tier AND m.tenant = c.tenant AND m.id = c.id AND {m_tenant}
CROSS JOIN terms
LEFT JOIN {memory}.usage u ON u.tenant = m.tenant AND u.id = m.id;

-- name: list_namespaces
-- Namespaces that hold items, in the order of their labels. Each condition is a prefix or a
-- suffix of labels, '*' standing for any one label.
WITH listed AS (
    SELECT DISTINCT m.tenant, m.namespace
    FROM {memory}.memories m
    WHERE m.tier::text = ANY (%(tiers)s::text[]) AND {m_scope}
      AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
), labelled AS (
    SELECT ARRAY[l.tenant] || string_to_array(nullif(rtrim(l.namespace, '.'), ''), '.') AS labels
    FROM listed l
), chosen AS (
    SELECT DISTINCT n.labels[1:coalesce(%(max_depth)s::int, cardinality(n.labels))] COLLATE "C" AS labels
    FROM labelled n
    WHERE NOT EXISTS (
        SELECT FROM unnest(%(kinds)s::text[], %(paths)s::text[]) AS c (kind, path)
        WHERE cardinality(n.labels) < cardinality(c.path::text[]) OR EXISTS (
            SELECT FROM unnest(
                c.path::text[],
                CASE WHEN c.kind = 'prefix' THEN n.labels[1:cardinality(c.path::text[])]
                ELSE n.labels[cardinality(n.labels) - cardinality(c.path::text[]) + 1:] END
            ) AS pair (wanted, label)
            WHERE pair.wanted <> '*' AND pair.wanted <> pair.label
        )
    )
)
SELECT labels FROM chosen ORDER BY labels LIMIT %(limit)s OFFSET %(offset)s;

-- name: stats
-- What each tier holds, for one tenant or for all.
SELECT t.tier::text,
       (SELECT count(*) FROM {memory}.memories m
        WHERE m.tier = t.tier AND (%(tenant)s::text IS NULL OR m.tenant = %(tenant)s::text)),
       (SELECT count(*) FROM {memory}.vectors v
        WHERE v.tier = t.tier AND (%(tenant)s::text IS NULL OR v.tenant = %(tenant)s::text)),
       (SELECT count(DISTINCT m.tenant) FROM {memory}.memories m
        WHERE m.tier = t.tier AND (%(tenant)s::text IS NULL OR m.tenant = %(tenant)s::text)),
       (SELECT coalesce(sum(u.access_count), 0) FROM {memory}.memories m
        JOIN {memory}.usage u ON u.tenant = m.tenant AND u.id = m.id
        WHERE m.tier = t.tier AND (%(tenant)s::text IS NULL OR m.tenant = %(tenant)s::text)),
       (SELECT count(*) FROM {memory}.memories m
        WHERE m.tier = t.tier AND m.expires_at IS NOT NULL
          AND (%(tenant)s::text IS NULL OR m.tenant = %(tenant)s::text)),
       (SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = %(schema_prefix)s || t.tier::text AND c.relkind = 'r')
FROM unnest(enum_range(NULL::{memory}.tier)) AS t (tier);

-- name: sizes
-- Every table and index of the store with its size on disk.
SELECT n.nspname || '.' || c.relname, CASE c.relkind WHEN 'i' THEN 'index' ELSE 'table' END,
       CASE c.relkind WHEN 'r' THEN pg_table_size(c.oid) ELSE pg_relation_size(c.oid) END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ANY (%(schemas)s::text[]) AND c.relkind IN ('r', 'i')
ORDER BY 3 DESC, 1;

-- name: largest_tenants
-- The number of vectors of the largest tenant in each tier.
SELECT n.tier::text, max(n.vectors)
FROM (SELECT tier, tenant, count(*) AS vectors FROM {memory}.vectors GROUP BY tier, tenant) n
GROUP BY n.tier;

-- name: lock_setup
-- One setup at a time in this database.
SELECT pg_advisory_xact_lock(%(lock)s::bigint);

-- name: has_migrations
-- Whether setup has been here; a role that may only use the tables can ask this.
SELECT to_regclass(%(migrations)s::text) IS NOT NULL;

-- name: applied_migrations
SELECT version, checksum FROM {memory}.migrations ORDER BY version;

-- name: record_migration
INSERT INTO {memory}.migrations (version, name, checksum, applied_at)
VALUES (%(version)s, %(name)s, %(checksum)s, clock_timestamp());

-- name: settings
SELECT value FROM {memory}.settings WHERE name = %(name)s;

-- name: change_setting
INSERT INTO {memory}.settings (name, value) VALUES (%(name)s, %(value)s::jsonb)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: any_vector
SELECT EXISTS (SELECT FROM {memory}.vectors);

-- name: state
-- The shape of this database's vectors, the tiers that have a usable HNSW index,
-- and those where building one was broken off.
SELECT (SELECT value FROM {memory}.settings WHERE name = 'vector'),
       ARRAY(
           SELECT n.nspname FROM pg_index i
           JOIN pg_class c ON c.oid = i.indexrelid
           JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE c.relname = %(index)s AND n.nspname = ANY (%(schemas)s::text[]) AND i.indisvalid
       ),
       ARRAY(
           SELECT n.nspname FROM pg_index i
           JOIN pg_class c ON c.oid = i.indexrelid
           JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE c.relname = %(index)s AND n.nspname = ANY (%(schemas)s::text[])
             AND NOT i.indisvalid
       );

-- name: purge_usage
-- Counters whose memory was removed while another process counted a read of it.
DELETE FROM {memory}.usage u
WHERE NOT EXISTS (
    SELECT FROM {memory}.memories m WHERE m.tenant = u.tenant AND m.id = u.id
);
