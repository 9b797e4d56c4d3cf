-- The statements of the gate: quarantine, duplicates and capacity. The rules of queries.sql hold
-- here too.

-- part: trust
-- The trust of a memory: 1 unless its value says otherwise.
CASE WHEN jsonb_typeof(m.value -> 'trust') = 'number'
     THEN CASE WHEN (m.value ->> 'trust')::numeric BETWEEN 0 AND 1
          THEN (m.value ->> 'trust')::float8 ELSE 1 END
     ELSE 1 END

-- part: trust_given
-- The same of a put.
CASE WHEN jsonb_typeof(i.value -> 'trust') = 'number'
     THEN CASE WHEN (i.value ->> 'trust')::numeric BETWEEN 0 AND 1
          THEN (i.value ->> 'trust')::float8 ELSE 1 END
     ELSE 1 END

-- name: replaced_by_writes
-- Once the keys are locked: the trust and state of the memories that puts would replace; the reason
-- of a quarantine; the value that gains no trust when it is put again unchanged; and whether the
-- memory is alive.
SELECT m.tenant, m.namespace, m.key, {part trust} AS trust, m.state, (
           SELECT e.detail -> 'reasons' FROM {memory}.events e
           WHERE e.tenant = m.tenant AND e.id = m.id AND e.kind = 'quarantined'
             AND e.undone_at IS NULL AND m.state = 'quarantined'
           ORDER BY e.number DESC LIMIT 1
       ) AS reasons,
       CASE WHEN m.state = 'quarantined' OR EXISTS (
           SELECT FROM {memory}.lineage l WHERE l.tenant = m.tenant AND l.id = m.id
       ) THEN m.value END AS bound, m.expires_at IS NULL OR m.expires_at > %(alive_at)s AS alive
FROM {places}
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m
    WHERE m.tenant = w.tenant AND m.namespace = w.namespace AND m.key = w.key
    LIMIT 1
) m
WHERE {few};

-- name: standing_under_keys
-- Once the keys are locked: the memories under them, their tiers, and whether a recall shows them.
SELECT m.value, m.tier::text, {part visible} AS shown
FROM {places}
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m
    WHERE m.tenant = w.tenant AND m.namespace = w.namespace AND m.key = w.key
      AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
    LIMIT 1
) m
WHERE {few};

-- name: quarantine
-- Quarantine memories that were just put, each with its reason. A retracted one stays retracted.
WITH held AS MATERIALIZED (
    SELECT m.id, w.reason, w.trust, w.event
    FROM unnest(%(namespaces)s::text[], %(keys)s::text[], %(reasons)s::text[], %(trusts)s::float8[],
                %(events)s::text[]) WITH ORDINALITY AS w (namespace, key, reason, trust, event, ord)
    CROSS JOIN LATERAL (
        SELECT m.id, m.state FROM {memory}.memories m
        WHERE m.tenant = %(tenant)s AND m.namespace = w.namespace AND m.key = w.key LIMIT 1
    ) m
    WHERE {few} AND m.state IS DISTINCT FROM 'retracted'
), marked AS (
    UPDATE {memory}.memories m SET state = 'quarantined', state_at = %(now)s::timestamptz
    FROM held h
    WHERE m.tenant = %(tenant)s AND m.id = h.id
)
INSERT INTO {memory}.events (tenant, event, kind, id, at, detail)
SELECT %(tenant)s, h.event, 'quarantined', h.id, %(now)s::timestamptz,
       jsonb_build_object('trust', h.trust, 'reasons', jsonb_build_array(h.reason))
FROM held h;

-- name: repeated
-- The texts of recently recalled memories that are repeated now, with tier and life, and whether
-- they are current and one user's. Without a namespace, all the tenant's memories count, except
-- those of other projects.
SELECT w.ord, m.namespace, m.key, m.tier::text, m.value, m.ttl_minutes, m.valid_to,
       {part visible} AS current, m.user_id IS NOT NULL AS personal
FROM unnest(%(namespaces)s::text[], %(keys)s::text[]) WITH ORDINALITY AS w (namespace, key, ord)
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.key = w.key
      AND (m.namespace = w.namespace OR w.namespace IS NULL AND NOT {part elsewhere})
      AND {part seen} AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
    ORDER BY m.tier DESC, m.user_id NULLS LAST LIMIT 1
) m
WHERE {few}
ORDER BY w.ord;

-- name: copies
-- Memories that have all words of a text, in the place where it would be stored, oldest first. The
-- index of words finds them, as it knows the tenant.
SELECT w.ord, m.key, m.value
FROM unnest(%(namespaces)s::text[], %(texts)s::text[]) WITH ORDINALITY AS w (namespace, text, ord)
CROSS JOIN LATERAL (
    SELECT string_agg(({lexeme}), ' & ') AS words
    FROM (
        SELECT l.lexeme FROM unnest(to_tsvector(%(language)s::regconfig, w.text)) AS l
        ORDER BY length(l.lexeme) DESC, l.lexeme LIMIT 32
    ) l
) q
CROSS JOIN LATERAL (
    SELECT m.id, m.key, m.value FROM [owner: {memory}.memories m
    WHERE m.lexemes @@ ({tenant_lexeme} || q.words || ')')::tsquery
      AND (m.tenant || '') = %(tenant)s | walled: {memory}.with_words(
        NULL, ({tenant_lexeme} || q.words || ')')::tsquery, w.namespace, NULL, NULL
    ) m
    WHERE m.tenant = %(tenant)s]
      AND m.namespace = w.namespace
      AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
      AND (m.state IS NULL OR m.state = 'quarantined')
    ORDER BY m.id LIMIT 20
) m
WHERE {few} AND q.words IS NOT NULL
ORDER BY w.ord, m.id;

-- name: quarantined
-- The quarantined memories of a tenant with their reasons, oldest first, without those of other
-- projects and users: of one key, in these places of each tier, and after another memory, if given.
SELECT m.id, m.namespace, m.key, m.tier::text, m.value, m.created_at, m.state_at, (
           SELECT e.detail -> 'reasons' FROM {memory}.events e
           WHERE e.tenant = %(tenant)s AND e.id = m.id AND e.kind = 'quarantined'
             AND e.undone_at IS NULL
           ORDER BY e.number DESC LIMIT 1
       ), m.updated_at
FROM {memory}.memories m
WHERE m.tenant = %(tenant)s AND m.state = 'quarantined'
  AND (m.created_at, m.id) > (
      (SELECT coalesce(%(since)s::timestamptz, '-infinity')),
      (SELECT coalesce(%(after)s::bigint, 0))
  )
  AND (%(key)s::text IS NULL OR m.key = %(key)s::text) AND NOT {part elsewhere}
  AND (%(tiers)s::text[] IS NULL OR EXISTS (
      SELECT FROM unnest(%(tiers)s::text[], %(lows)s::text[], %(highs)s::text[])
          AS w (tier, low, high)
      WHERE w.tier = m.tier::text AND m.namespace >= w.low AND m.namespace < w.high
  ))
  AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
ORDER BY m.created_at, m.id
LIMIT %(limit)s;

-- name: held
-- A memory, if it is quarantined.
SELECT m.value, m.updated_at FROM {memory}.memories m
WHERE m.tenant = %(tenant)s AND m.id = %(id)s AND m.state = 'quarantined' LIMIT 1;

-- name: decisions
-- The first decision on each of these memories since a moment, with its reason, without those of
-- other projects and users, and without memories deleted since by anything but that decision.
SELECT w.id, e.kind, e.detail -> 'reasons'
FROM unnest(%(ids)s::bigint[], %(since)s::timestamptz[]) WITH ORDINALITY AS w (id, since, ord)
CROSS JOIN LATERAL (
    SELECT e.kind, e.detail FROM {memory}.events e
    WHERE e.tenant = %(tenant)s AND e.id = w.id AND e.kind IN ('released', 'rejected')
      AND e.at >= w.since AND EXISTS (
          SELECT FROM (
              SELECT k.tier::text, k.namespace, k.user_id FROM {memory}.memories k
              WHERE k.tenant = %(tenant)s AND k.id = w.id
              UNION ALL
              SELECT coalesce(e.detail ->> 'tier', 'working'), e.detail ->> 'namespace',
                     e.detail ->> 'user_id'
              WHERE e.kind = 'rejected'
          ) AS m (tier, namespace, user_id)
          WHERE NOT {part elsewhere}
      )
    ORDER BY e.number LIMIT 1
) e
WHERE {few};

-- name: release
-- Release a memory with this trust. `doubt`, which follows, sets its state: current, or the state
-- that earlier moves gave it.
WITH released AS (
    UPDATE {memory}.memories m
    SET state = 'suspect', state_at = %(now)s::timestamptz,
        value = CASE WHEN {part trust} < %(trust)s::float8
            THEN m.value || jsonb_build_object('trust', %(trust)s::float8) ELSE m.value END,
        updated_at = greatest(%(now)s::timestamptz, m.updated_at + interval '1 microsecond')
    WHERE m.tenant = %(tenant)s AND m.id = %(id)s AND m.state = 'quarantined'
    RETURNING m.id
), ended AS (
    UPDATE {memory}.events e SET undone_at = %(now)s::timestamptz
    WHERE e.tenant = %(tenant)s AND e.id = %(id)s AND e.kind = 'quarantined'
      AND e.undone_at IS NULL
)
INSERT INTO {memory}.events (tenant, event, kind, id, at, detail)
SELECT %(tenant)s, %(event)s, 'released', r.id, %(now)s::timestamptz, %(detail)s::jsonb
FROM released r;

-- name: record_gone
-- Record why memories are deleted by the next statement; the event keeps each one's place and
-- owner.
INSERT INTO {memory}.events (tenant, event, kind, id, at, detail)
SELECT %(tenant)s, w.event, %(kind)s, w.id, %(now)s::timestamptz,
       w.detail::jsonb || jsonb_build_object('namespace', w.namespace, 'key', w.key,
           'tier', m.tier, 'user_id', m.user_id)
FROM unnest(%(ids)s::bigint[], %(namespaces)s::text[], %(keys)s::text[], %(details)s::text[],
            %(events)s::text[]) AS w (id, namespace, key, detail, event)
LEFT JOIN LATERAL (
    SELECT m.tier::text, m.user_id FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.id = w.id LIMIT 1
) m ON true;

-- name: history_of_gone
-- The decisions in the tenant on memories of this key that were rejected or evicted, without those
-- of another user.
SELECT e.detail ->> 'namespace', e.detail ->> 'tier', o.event, o.kind, o.at, o.detail, o.undone_at
FROM [owner: {memory}.events | walled: {memory}.gone(%(key)s::text)] e
JOIN {memory}.events o ON o.tenant = e.tenant AND o.id = e.id
WHERE e.tenant = %(tenant)s AND e.kind IN ('rejected', 'evicted')
  AND e.detail ->> 'key' = %(key)s::text
  AND (e.detail ->> 'user_id' IS NULL OR e.detail ->> 'user_id' = %(user_id)s::text)
ORDER BY o.number;

-- name: sweep_gone
-- Delete a batch of memories rejected or evicted before then, oldest first, with all their events;
-- decisions of turns expire by themselves. Returns the count.
WITH old AS MATERIALIZED (
    SELECT e.tenant, e.id
    FROM {memory}.events e
    WHERE e.kind IN ('rejected', 'evicted') AND e.at < %(before)s::timestamptz
    ORDER BY e.at
    LIMIT 1000
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM {memory}.events e USING old o
    WHERE e.tenant = o.tenant AND e.id = o.id
      AND NOT (e.event >= 'turn/' AND e.event < 'turn0')
    RETURNING e.event
)
SELECT count(*) FROM gone;

-- name: standing_in_place
-- The current memories of a place, of a type or in a tier, if it would hold too many with the new
-- ones. Pinned memories neither go nor count.
WITH there AS MATERIALIZED (
    SELECT m.id, m.key, m.created_at,
           CASE jsonb_typeof(m.value -> 'importance') WHEN 'number'
               THEN least(1, greatest(0, (m.value ->> 'importance')::numeric))::float8
           END AS importance, {part trust} AS trust
    FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.namespace = %(namespace)s AND m.key <> ALL (%(keys)s::text[])
      AND (%(tier)s::text IS NULL OR m.tier::text = %(tier)s::text)
      AND (%(memory_type)s::text IS NULL
           OR coalesce(m.value ->> 'memory_type', 'episodic') = %(memory_type)s::text)
      AND m.state IS NULL AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
      AND NOT m.value @> '{"pinned": true}'
)
SELECT t.id, t.key, t.created_at, t.importance, coalesce(u.strength, 0), t.trust
FROM there t
LEFT JOIN LATERAL (
    SELECT * FROM {memory}.usage u WHERE u.tenant = %(tenant)s AND u.id = t.id LIMIT 1
) u ON true
WHERE (SELECT count(*) FROM there) + cardinality(%(keys)s::text[]) > %(most)s::int
ORDER BY t.id;
