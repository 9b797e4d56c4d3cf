-- The statements of truth over time: derivation, supersession, retraction, restoration, and the
-- history of a memory. The rules of queries.sql hold here too. A memory is `suspect` exactly if it
-- is not `quarantined` and came, directly or not, from a `retracted` one; or if it is noted as
-- `rewritten`, as one of its sources was forgotten, and nobody restored it. Its `state_at` is the
-- earliest of theirs. When it is no longer suspect, its moves tell its state.

-- name: known_keys
-- The places in the tenant of memories with these keys, the user's own before shared ones.
SELECT m.key, m.tenant, m.namespace, m.tier::text
FROM unnest(%(keys)s::text[]) WITH ORDINALITY AS w (key, ord)
JOIN {memory}.memories m ON m.tenant = %(tenant)s AND m.key = w.key
WHERE {few} AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s) AND {part seen}
ORDER BY w.ord, m.tier, m.user_id NULLS LAST, m.namespace;

-- name: known_handles
-- The same for handles, each with its own.
SELECT {memory}.handle(m.tenant, m.namespace, m.key), m.key, m.tenant, m.namespace, m.tier::text
FROM {memory}.memories m
WHERE m.tenant = %(tenant)s AND m.key = ANY (ARRAY({part handled}))
  AND {memory}.handle(m.tenant, m.namespace, m.key) = ANY (%(handles)s)
  AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s) AND {part seen}
ORDER BY m.tier, m.user_id NULLS LAST, m.namespace, m.key;

-- name: origins_of_writes
-- Once the keys are locked: whether each source exists and is not itself derived from the memory,
-- its trust, and whether it is quarantined.
SELECT w.source_key, s.id IS NOT NULL AS there, d.id IS NOT NULL AND d.id IN (
           WITH RECURSIVE above AS (
               SELECT s.id
               UNION
               SELECT l.source
               FROM above a
               CROSS JOIN LATERAL (
                   SELECT l.source FROM {memory}.lineage l
                   WHERE l.tenant = w.tenant AND l.id = a.id OFFSET 0
               ) l
           )
           SELECT a.id FROM above a
       ) AS circular, s.trust, s.state IS NOT DISTINCT FROM 'quarantined' AS held
FROM unnest(%(tenants)s::text[], %(namespaces)s::text[], %(keys)s::text[],
            %(source_namespaces)s::text[], %(source_keys)s::text[])
         WITH ORDINALITY AS w (tenant, namespace, key, source_namespace, source_key, ord)
LEFT JOIN LATERAL (
    SELECT m.id FROM {memory}.memories m
    WHERE m.tenant = w.tenant AND m.namespace = w.namespace AND m.key = w.key LIMIT 1
) d ON true
LEFT JOIN LATERAL (
    SELECT m.id, m.state, {part trust} AS trust FROM {memory}.memories m
    WHERE m.tenant = w.tenant AND m.namespace = w.source_namespace AND m.key = w.source_key
      AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
    LIMIT 1
) s ON true
WHERE {few}
ORDER BY w.ord;

-- name: derive
-- Record the sources of memories that were just put; earlier records stay. A shared memory never
-- names a user's own one.
WITH pairs AS MATERIALIZED (
    SELECT w.event, d.id, s.id AS source,
           CASE WHEN s.user_id IS NULL OR s.user_id = d.user_id THEN s.key
                ELSE 'what is a user''s own' END AS key
    FROM unnest(%(namespaces)s::text[], %(keys)s::text[], %(source_namespaces)s::text[],
                %(source_keys)s::text[], %(events)s::text[])
             WITH ORDINALITY AS w (namespace, key, source_namespace, source_key, event, ord)
    CROSS JOIN LATERAL (
        SELECT m.id, m.user_id FROM {memory}.memories m
        WHERE m.tenant = %(tenant)s AND m.namespace = w.namespace AND m.key = w.key LIMIT 1
    ) d
    CROSS JOIN LATERAL (
        SELECT m.id, m.key, m.user_id FROM {memory}.memories m
        WHERE m.tenant = %(tenant)s AND m.namespace = w.source_namespace
          AND m.key = w.source_key LIMIT 1
    ) s
    WHERE {few}
), edges AS (
    INSERT INTO {memory}.lineage (tenant, id, source, event, derived)
    SELECT %(tenant)s, p.id, p.source, p.event, true FROM pairs p ORDER BY p.id, p.source
    ON CONFLICT (tenant, id, source) DO NOTHING
    RETURNING id, source, event
)
INSERT INTO {memory}.events (tenant, event, kind, id, at, detail)
SELECT %(tenant)s, e.event, 'derived', e.id, %(now)s::timestamptz, jsonb_build_object(
           'sources', jsonb_agg(e.source ORDER BY e.source),
           'reasons', jsonb_build_array('from ' || string_agg(p.key, ', ' ORDER BY e.source)))
FROM edges e
JOIN pairs p ON p.id = e.id AND p.source = e.source
GROUP BY e.event, e.id;

-- name: standing
-- The times of truth of memories, and the times since which their states are known.
SELECT m.id, m.state, m.state_at, coalesce(m.valid_from, least(m.occurred_at, m.created_at)),
       m.valid_to, m.created_at, coalesce(m.valid_from, m.occurred_at, m.created_at)
FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS w (id, ord)
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m WHERE m.tenant = %(tenant)s AND m.id = w.id LIMIT 1
) m
WHERE {few}
ORDER BY w.ord;

-- name: retract
-- A memory was never true. Returns the event, or nothing if it is retracted or missing.
WITH marked AS (
    UPDATE {memory}.memories m SET state = 'retracted', state_at = %(now)s::timestamptz
    WHERE m.tenant = %(tenant)s AND m.id = %(id)s AND m.state IS DISTINCT FROM 'retracted'
      AND m.state IS DISTINCT FROM 'quarantined'
    RETURNING m.id
)
INSERT INTO {memory}.events (tenant, event, kind, id, at, detail)
SELECT %(tenant)s, %(event)s, 'retracted', k.id, %(now)s::timestamptz, %(detail)s::jsonb
FROM marked k
RETURNING event;

-- name: derive_answers
-- Record that an assistant's answers to a memory came from it: the turn right after it, and later
-- memories of its place all of whose words it has. This runs before the retraction, and not again
-- for a retracted memory.
WITH answers AS MATERIALIZED (
    SELECT a.id, m.id AS source, m.key
    FROM (SELECT * FROM {memory}.memories m
          WHERE m.tenant = %(tenant)s AND m.id = %(id)s
            AND m.state IS DISTINCT FROM 'retracted' AND m.state IS DISTINCT FROM 'quarantined'
          LIMIT 1) m
    CROSS JOIN LATERAL (
        SELECT a.id FROM {memory}.memories a
        WHERE a.tenant = %(tenant)s AND a.namespace = m.namespace AND a.id <> m.id
          AND a.speaker = ANY (%(assistants)s::text[]) AND a.created_at >= m.created_at
          AND (a.session = m.session AND a.turn = m.turn + 1
               OR a.lexemes <> '' AND tsvector_to_array(a.lexemes)
                                      <@ tsvector_to_array(m.lexemes))
    ) a
), edges AS (
    INSERT INTO {memory}.lineage (tenant, id, source, event, derived)
    SELECT %(tenant)s, a.id, a.source, %(answered)s || '/' || a.id, true
    FROM answers a ORDER BY a.id
    ON CONFLICT (tenant, id, source) DO NOTHING
    RETURNING id, source, event
)
INSERT INTO {memory}.events (tenant, event, kind, id, at, detail)
SELECT %(tenant)s, e.event, 'derived', e.id, %(now)s::timestamptz, jsonb_build_object(
           'sources', jsonb_build_array(e.source),
           'reasons', jsonb_build_array('it answers ' || a.key))
FROM edges e
JOIN answers a ON a.id = e.id;

-- name: retraction
-- The retraction of a memory that was not undone.
SELECT e.event FROM {memory}.events e
WHERE e.tenant = %(tenant)s AND e.id = %(id)s AND e.kind = 'retracted' AND e.undone_at IS NULL
ORDER BY e.number DESC LIMIT 1;

-- name: undo_retraction
-- End a retraction; `doubt`, which follows, sets the state.
WITH marked AS (
    UPDATE {memory}.memories m SET state = 'suspect', state_at = %(now)s::timestamptz
    WHERE m.tenant = %(tenant)s AND m.id = %(id)s AND m.state = 'retracted'
)
UPDATE {memory}.events e SET undone_at = %(now)s::timestamptz
WHERE e.tenant = %(tenant)s AND e.id = %(id)s AND e.kind = 'retracted' AND e.undone_at IS NULL;

-- name: undo_rewriting
-- Allow recall of a memory that is suspect since one of its sources was forgotten; `doubt`, which
-- follows, sets the state.
UPDATE {memory}.events e SET undone_at = %(now)s::timestamptz
WHERE e.tenant = %(tenant)s AND e.id = %(id)s AND e.kind = 'rewritten' AND e.undone_at IS NULL;

-- name: doubt
-- Update which of these memories, of those in these events, and of all derived from either are
-- suspect. Returns those that changed. Recursion ends by itself in a circle, though there is none.
-- The "OFFSET 0" keeps every step at an index.
WITH RECURSIVE seeds AS MATERIALIZED (
    SELECT w.id FROM unnest(%(ids)s::bigint[]) AS w (id)
    UNION
    SELECT unnest(ARRAY[e.id, e.target]) FROM {memory}.events e
    WHERE e.tenant = %(tenant)s AND e.event = ANY (%(events)s::text[])
), below AS (
    SELECT s.id FROM seeds s WHERE s.id IS NOT NULL
    UNION
    SELECT l.id
    FROM below b
    CROSS JOIN LATERAL (
        SELECT l.id FROM {memory}.lineage l
        WHERE l.tenant = %(tenant)s AND l.source = b.id OFFSET 0
    ) l
), above AS (
    SELECT b.id FROM below b
    UNION
    SELECT l.source
    FROM above a
    CROSS JOIN LATERAL (
        SELECT l.source FROM {memory}.lineage l
        WHERE l.tenant = %(tenant)s AND l.id = a.id OFFSET 0
    ) l
), known AS MATERIALIZED (
    SELECT m.id, m.state, m.state_at
    FROM above a
    CROSS JOIN LATERAL (
        SELECT * FROM {memory}.memories m WHERE m.tenant = %(tenant)s AND m.id = a.id LIMIT 1
    ) m
), doubted AS (
    SELECT l.id, k.state_at AS since
    FROM known k
    CROSS JOIN LATERAL (
        SELECT l.id FROM {memory}.lineage l
        WHERE l.tenant = %(tenant)s AND l.source = k.id OFFSET 0
    ) l
    WHERE k.state = 'retracted' AND l.id IN (SELECT a.id FROM above a)
    UNION
    SELECT l.id, d.since
    FROM doubted d
    CROSS JOIN LATERAL (
        SELECT l.id FROM {memory}.lineage l
        WHERE l.tenant = %(tenant)s AND l.source = d.id OFFSET 0
    ) l
    WHERE l.id IN (SELECT a.id FROM above a)
), changed AS MATERIALIZED (
    SELECT k.id, d.since
    FROM below b
    JOIN known k ON k.id = b.id
    LEFT JOIN (SELECT d.id, min(d.since) AS since FROM doubted d GROUP BY d.id) d ON d.id = b.id
    WHERE k.state IS DISTINCT FROM 'retracted' AND k.state IS DISTINCT FROM 'quarantined' AND (
        (k.state IS NOT DISTINCT FROM 'suspect') <> (d.since IS NOT NULL)
        OR k.state = 'suspect' AND k.state_at <> d.since
    ) AND NOT (k.state = 'suspect' AND d.since IS NULL AND EXISTS (
        SELECT FROM {memory}.events e
        WHERE e.tenant = %(tenant)s AND e.id = k.id AND e.kind = 'rewritten' AND e.undone_at IS NULL
    ))
), settled AS MATERIALIZED (
    SELECT c.id, CASE WHEN c.since IS NULL THEN o.state ELSE 'suspect' END AS state,
           coalesce(c.since, o.at) AS at
    FROM changed c
    LEFT JOIN LATERAL (
        SELECT e.kind AS state, e.at FROM {memory}.events e
        WHERE e.tenant = %(tenant)s AND e.id = c.id AND e.kind IN ('demoted', 'superseded', 'quarantined')
          AND e.undone_at IS NULL
        UNION ALL
        SELECT 'consolidated', e.at FROM {memory}.events e
        WHERE e.tenant = %(tenant)s AND e.id = c.id AND e.kind = 'deleted' AND e.undone_at IS NULL
        UNION ALL
        SELECT 'consolidated', e.at
        FROM {memory}.lineage l
        JOIN {memory}.events e ON e.tenant = l.tenant AND e.event = l.event
        WHERE l.tenant = %(tenant)s AND l.source = c.id AND NOT l.derived AND NOT EXISTS (
            SELECT FROM {memory}.events o
            WHERE o.tenant = l.tenant AND o.id = l.id AND o.kind = 'demoted'
              AND o.undone_at IS NULL
        )
        LIMIT 1
    ) o ON c.since IS NULL
    ORDER BY c.id
)
UPDATE {memory}.memories m SET state = s.state, state_at = s.at
FROM settled s
WHERE m.tenant = %(tenant)s AND m.id = ANY (ARRAY(SELECT c.id FROM changed c)) AND m.id = s.id
RETURNING m.id, m.key, m.state, m.user_id;

-- name: derivation
-- The sources of a memory, their sources, and so on: each edge, whether the caller sees the source,
-- and whether the derived memory superseded it.
WITH RECURSIVE edges AS (
    SELECT l.id, l.source FROM {memory}.lineage l
    WHERE l.tenant = %(tenant)s AND l.id = %(id)s
    UNION
    SELECT l.id, l.source
    FROM edges e
    CROSS JOIN LATERAL (
        SELECT l.id, l.source FROM {memory}.lineage l
        WHERE l.tenant = %(tenant)s AND l.id = e.source OFFSET 0
    ) l
)
SELECT e.id, e.source, m.namespace, m.key, m.tier::text, m.state, m.value, {part seen},
       m.state IS NOT DISTINCT FROM 'superseded' AND EXISTS (
    SELECT FROM {memory}.events s
    WHERE s.tenant = %(tenant)s AND s.id = e.source AND s.kind = 'superseded' AND s.target = e.id
      AND s.undone_at IS NULL
)
FROM edges e
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m WHERE m.tenant = %(tenant)s AND m.id = e.source LIMIT 1
) m
ORDER BY e.id, e.source;

-- name: versions
-- The chain of supersessions before and after a memory, in the order of truth, without those of
-- another user.
WITH RECURSIVE chain AS (
    SELECT %(id)s::bigint AS id
    UNION
    SELECT o.id
    FROM chain c
    CROSS JOIN LATERAL (
        SELECT e.target AS id FROM {memory}.events e
        WHERE e.tenant = %(tenant)s AND e.id = c.id AND e.kind = 'superseded'
          AND e.undone_at IS NULL
        UNION ALL
        SELECT e.id FROM {memory}.events e
        WHERE e.tenant = %(tenant)s AND e.target = c.id AND e.kind = 'superseded'
          AND e.undone_at IS NULL
    ) o
)
SELECT m.namespace, m.key, m.tier::text, m.value, m.state, m.state_at,
       coalesce(m.valid_from, least(m.occurred_at, m.created_at)) AS began, m.valid_to,
       m.created_at,
       (SELECT k.key FROM {memory}.events e
        JOIN {memory}.memories k ON k.tenant = e.tenant AND k.id = e.target
        WHERE e.tenant = %(tenant)s AND e.id = m.id AND e.kind = 'superseded'
          AND e.undone_at IS NULL AND {part seen k} LIMIT 1)
FROM chain c
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m WHERE m.tenant = %(tenant)s AND m.id = c.id LIMIT 1
) m
WHERE {part seen}
ORDER BY began, m.created_at, m.id;

-- name: successors
-- The memory that superseded a memory, else the one in which it lives on, else the one to which it
-- was promoted; then the same of that one, and so on, each with its move. The last one is where it
-- lives now.
WITH RECURSIVE chain AS (
    SELECT %(id)s::bigint AS id, 0 AS step, NULL::text COLLATE "C" AS kind,
           NULL::text COLLATE "C" AS event
    UNION ALL
    SELECT n.id, c.step + 1, n.kind, n.event
    FROM chain c
    CROSS JOIN LATERAL (
        SELECT e.target AS id, e.kind, e.event, 0 AS place FROM {memory}.events e
        WHERE e.tenant = %(tenant)s AND e.id = c.id AND e.kind = 'superseded'
          AND e.undone_at IS NULL
        UNION ALL
        SELECT l.id, e.kind, e.event, CASE WHEN l.derived THEN 2 ELSE 1 END
        FROM {memory}.lineage l
        JOIN {memory}.events e ON e.tenant = l.tenant AND e.event = l.event
        WHERE l.tenant = %(tenant)s AND l.source = c.id AND {part lived_on} AND NOT EXISTS (
            SELECT FROM {memory}.events o
            WHERE o.tenant = l.tenant AND o.id = l.id AND o.kind = 'demoted'
              AND o.undone_at IS NULL
        )
        ORDER BY place
        LIMIT 1
    ) n
) CYCLE id SET circular USING path
SELECT m.namespace, m.key, m.state, c.kind, c.event
FROM chain c
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m WHERE m.tenant = %(tenant)s AND m.id = c.id LIMIT 1
) m
WHERE c.step > 0
ORDER BY c.step;
