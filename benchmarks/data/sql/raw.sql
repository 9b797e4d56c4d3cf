-- name: get
SELECT m.id, m.value, m.created_at, m.updated_at
FROM memory.memories m
WHERE m.tenant = %s AND m.namespace = %s AND m.key = %s
  AND (m.expires_at IS NULL OR m.expires_at > now())

-- name: count
INSERT INTO memory.usage AS u (tenant, id, access_count, last_accessed_at)
SELECT a.tenant, a.id, a.accesses, now()
FROM unnest(%s::text[], %s::bigint[], %s::int[]) AS a (tenant, id, accesses)
ORDER BY a.tenant, a.id
ON CONFLICT (tenant, id) DO UPDATE
SET access_count = u.access_count + excluded.access_count,
    last_accessed_at = excluded.last_accessed_at

-- name: lock
SELECT pg_advisory_xact_lock(42, b) FROM unnest(%s::int[]) b

-- name: put
WITH input AS MATERIALIZED (
    SELECT i.tenant, i.namespace, i.key, i.value::jsonb,
           to_tsvector('english', i.text) || array_to_tsvector(ARRAY[chr(1) || i.tenant]) AS lexemes
    FROM unnest(%(tenants)s::text[], %(namespaces)s::text[], %(keys)s::text[],
                %(values)s::text[], %(texts)s::text[]) AS i (tenant, namespace, key, value, text)
), updated AS (
    UPDATE memory.memories m
    SET value = i.value, lexemes = i.lexemes, updated_at = now(), expires_at = NULL,
        ttl_minutes = NULL
    FROM input i
    WHERE m.tenant = i.tenant AND m.namespace = i.namespace AND m.key = i.key
    RETURNING m.tenant, m.namespace, m.key
)
INSERT INTO memory.memories (tenant, tier, namespace, key, value, lexemes, created_at, updated_at)
SELECT i.tenant, 'working', i.namespace, i.key, i.value, i.lexemes, now(), now()
FROM input i
WHERE NOT EXISTS (
    SELECT FROM updated u
    WHERE u.tenant = i.tenant AND u.namespace = i.namespace AND u.key = i.key
)

-- name: forget_vectors
DELETE FROM memory.vectors v
USING unnest(%(tenants)s::text[], %(namespaces)s::text[], %(keys)s::text[])
          AS i (tenant, namespace, key)
JOIN memory.memories m
  ON m.tenant = i.tenant AND m.namespace = i.namespace AND m.key = i.key
WHERE v.tenant = m.tenant AND v.tier = m.tier AND v.namespace = m.namespace AND v.id = m.id

-- name: put_vectors
INSERT INTO memory.vectors (tenant, tier, namespace, id, field, embedding)
SELECT m.tenant, m.tier, m.namespace, m.id, 'text', i.embedding
FROM unnest(%(tenants)s::text[], %(namespaces)s::text[], %(keys)s::text[],
            %(embeddings)b::halfvec[]) AS i (tenant, namespace, key, embedding)
JOIN memory.memories m
  ON m.tenant = i.tenant AND m.namespace = i.namespace AND m.key = i.key

-- name: search_tier
(
    SELECT m.namespace, m.key, m.value, m.created_at, m.updated_at, near.distance, m.id
    FROM (
        SELECT v.id, v.embedding <=> %(query)b AS distance
        FROM {tier}.vectors v
        WHERE v.tenant = %(tenant)s AND v.namespace >= %(low)s AND v.namespace < %(high)s
        ORDER BY distance, v.id
    ) near
    JOIN {tier}.memories m ON m.tenant = %(tenant)s AND m.id = near.id
    WHERE m.expires_at IS NULL OR m.expires_at > now()
    ORDER BY near.distance, near.id
    LIMIT %(limit)s
)
