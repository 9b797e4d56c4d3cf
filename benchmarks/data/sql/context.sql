-- name: copy_tenant
WITH copied AS (
    INSERT INTO memory.memories
        (tenant, tier, id, namespace, key, value, lexemes, created_at, updated_at, expires_at,
         ttl_minutes, session, turn, speaker, occurred_at)
    SELECT %(tenant)s, m.tier, nextval('memory.memory_ids'), m.namespace, m.key, m.value,
           ts_delete(m.lexemes, chr(1) || m.tenant)
               || array_to_tsvector(ARRAY[chr(1) || %(tenant)s::text]),
           m.created_at, m.updated_at, m.expires_at, m.ttl_minutes, m.session, m.turn, m.speaker,
           m.occurred_at
    FROM memory.memories m
    WHERE m.tenant = %(source)s
    ORDER BY m.id
    RETURNING tenant, tier, id, namespace, key
)
INSERT INTO memory.vectors (tenant, tier, namespace, id, field, embedding)
SELECT c.tenant, c.tier, c.namespace, c.id, v.field, v.embedding + %(shift)s::halfvec
FROM copied c
JOIN memory.memories m
  ON m.tenant = %(source)s AND m.namespace = c.namespace AND m.key = c.key
JOIN memory.vectors v
  ON v.tenant = m.tenant AND v.tier = m.tier AND v.namespace = m.namespace AND v.id = m.id
ORDER BY c.id

-- name: give_memories
COPY (SELECT rtrim(m.tenant || '.' || m.namespace, '.'), m.key, m.value
FROM memory.memories m ORDER BY m.id) TO STDOUT (FORMAT binary)

-- name: take_memories
COPY store (prefix, key, value) FROM STDIN (FORMAT binary)

-- name: give_vectors
COPY (SELECT rtrim(m.tenant || '.' || m.namespace, '.'), m.key, v.field,
v.embedding::vector
FROM memory.memories m
JOIN memory.vectors v ON v.tenant = m.tenant AND v.id = m.id AND v.tier = m.tier
ORDER BY m.id) TO STDOUT (FORMAT binary)

-- name: take_vectors
COPY store_vectors (prefix, key, field_name, embedding) FROM STDIN (FORMAT binary)
