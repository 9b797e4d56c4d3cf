-- Every statement of the package. A header names each. {braces} are filled in once, when the
-- statements are loaded; %(names)s are parameters.
-- {places}: the keys to look up. {few}: always true of them, but makes the planner expect one row,
-- so that plans made while the tables were small go by the keys and stay right.
-- {part NAME}: text that statements share, under a header `part` of its own in any file. {part NAME
-- n} has the alias n in place of m.
-- {legs}, {legs NAME}: the statement's own leg, or the named one, once a tier. Such a statement is
-- also loaded for each tier alone, as NAME_SCOPE_TIER.
-- [owner: … | walled: …]: the text for a role that sees everything, and for one behind the wall
-- between tenants.
-- {m_scope}, {v_scope}, {s_scope}, {n_scope}: the statement is loaded for each scope: NAME_tenant,
-- NAME_prefix (a range of one tenant's namespaces) and NAME_everywhere. {filter}: it is loaded
-- without a filter, and with one as NAME_filtered_SCOPE.

-- part: visible
-- True of the memories m that are true at `true_at`, as was known at `known_at`. Both are now by
-- default: then `as_of` and `known_at` are NULL, and the times of recording and of changes of state
-- are not compared. A quarantined memory is never true.
(m.state IS NULL OR m.state_at > %(known_at)s::timestamptz AND m.state <> 'quarantined'
     OR m.state = 'superseded' AND m.valid_to > %(true_at)s::timestamptz)
AND (m.valid_to IS NULL OR m.valid_to > %(true_at)s::timestamptz
     OR m.state = 'superseded' AND m.state_at > %(known_at)s::timestamptz)
AND CASE WHEN m.valid_from IS NOT NULL THEN m.valid_from <= %(true_at)s::timestamptz
    ELSE %(as_of)s::timestamptz IS NULL
         OR least(m.occurred_at, m.created_at) <= %(as_of)s::timestamptz END
AND (%(known_at)s::timestamptz IS NULL OR m.created_at <= %(known_at)s::timestamptz)

-- part: otherwise
-- True if the memory of the edge l came from its source in another way than by superseding it.
NOT EXISTS (
    SELECT FROM {memory}.events e
    WHERE e.tenant = %(tenant)s AND e.id = l.source AND e.kind = 'superseded' AND e.target = l.id
      AND e.undone_at IS NULL
)

-- part: outdated
-- True if the memory m came, directly or not, from one that was superseded at `true_at`, as was
-- known at `known_at`. A superseding memory, and all that came from it, rests on present facts.
-- Most memories came from none, so that is checked first.
CASE WHEN EXISTS (
    SELECT FROM {memory}.lineage l WHERE l.tenant = %(tenant)s AND l.id = m.id
) THEN EXISTS (
    WITH RECURSIVE above AS (
        SELECT m.id
        UNION
        SELECT l.source
        FROM above a
        CROSS JOIN LATERAL (
            SELECT l.source FROM {memory}.lineage l
            WHERE l.tenant = %(tenant)s AND l.id = a.id AND {part otherwise} OFFSET 0
        ) l
    )
    SELECT FROM above a
    CROSS JOIN LATERAL (
        SELECT FROM {memory}.memories s
        WHERE s.tenant = %(tenant)s AND s.id = a.id AND s.state = 'superseded'
          AND s.valid_to <= %(true_at)s::timestamptz
          AND (%(known_at)s::timestamptz IS NULL OR s.state_at <= %(known_at)s::timestamptz) LIMIT 1
    ) s
    WHERE a.id <> m.id
) ELSE false END

-- part: replaces
-- The handle of the last memory that the memory m replaced, and the time of that.
(
    SELECT jsonb_build_array({memory}.handle(s.tenant, s.namespace, s.key), coalesce(s.occurred_at, s.created_at))
    FROM {memory}.events e
    CROSS JOIN LATERAL (
        SELECT * FROM {memory}.memories s WHERE s.tenant = %(tenant)s AND s.id = e.id LIMIT 1
    ) s
    WHERE e.tenant = %(tenant)s AND e.target = m.id AND e.kind = 'superseded' AND e.undone_at IS NULL
    ORDER BY e.number DESC LIMIT 1
)

-- part: in_session
-- The session of the memory m, '' for none. Behind the wall no index can read coalesce.
CASE WHEN m.session IS NULL THEN '' ELSE m.session END

-- part: seen
-- True if the caller sees the memory m: shared memories, and a user also the user's own.
(m.user_id IS NULL OR coalesce(m.user_id = %(user_id)s::text, false))

-- part: asked
-- Visible memories that match the further conditions of get_context; NULL is no condition.
{part visible} AND {part seen}
AND (%(memory_types)s::text[] IS NULL OR coalesce(m.value ->> 'memory_type', 'episodic') = ANY (%(memory_types)s::text[]))
AND (%(tags)s::jsonb IS NULL OR m.value -> 'tags' @> %(tags)s::jsonb)
AND (%(agent_id)s::text IS NULL OR m.value ->> 'agent_id' = %(agent_id)s::text)
AND (%(since)s::timestamptz IS NULL OR coalesce(m.occurred_at, m.created_at) >= %(since)s::timestamptz)
AND (%(min_importance)s::float8 IS NULL OR CASE jsonb_typeof(m.value -> 'importance')
     WHEN 'number' THEN (m.value ->> 'importance')::numeric >= %(min_importance)s::float8::numeric
     ELSE false END)

-- name: get
-- One memory by namespace and key, in any tier. The caller checks its expiry: fewer parameters are
-- faster.
SELECT m.tenant, m.namespace, m.key, m.value, m.created_at, m.updated_at,
       m.tier::text, m.expires_at, m.ttl_minutes, m.id
FROM {memory}.memories m
WHERE m.tenant = %(tenant)s AND m.namespace = %(namespace)s AND m.key = %(key)s;

-- name: get_many
-- The same for many keys. Rows are matched to keys by namespace and key, not by order.
SELECT m.tenant, m.namespace, m.key, m.value, m.created_at, m.updated_at,
       m.tier::text, m.expires_at, m.ttl_minutes, m.id
FROM {places}
JOIN {memory}.memories m
  ON m.tenant = w.tenant AND m.namespace = w.namespace AND m.key = w.key
WHERE {few};

-- part: added_up
-- Counters, added to those that a memory has. The strength halves in 30 days; a late report of an
-- early access adds less.
ON CONFLICT (tenant, id) DO UPDATE
SET access_count = u.access_count + excluded.access_count,
    success_count = u.success_count + excluded.success_count,
    failure_count = u.failure_count + excluded.failure_count,
    last_accessed_at = greatest(u.last_accessed_at, excluded.last_accessed_at),
    strength = u.strength * power(0.5, greatest(0, coalesce(extract(epoch FROM
                   excluded.strength_at - u.strength_at), 0)) / 2592000)
             + excluded.strength * power(0.5, greatest(0, coalesce(extract(epoch FROM
                   u.strength_at - excluded.strength_at), 0)) / 2592000),
    strength_at = greatest(u.strength_at, excluded.strength_at)

-- name: count_accesses
-- Add up the reads since the last time. A crash may lose these counts, so nobody waits for the
-- commit. No key is locked, so that a read never waits for a writer of the memory. A counter may so
-- outlive its memory, which is harmless; drop_counters removes it.
INSERT INTO {memory}.usage AS u
    (tenant, id, access_count, last_accessed_at, strength, strength_at)
SELECT a.tenant, a.id, a.accesses, %(now)s::timestamptz, a.accesses, %(now)s::timestamptz
FROM unnest(%(tenants)s::text[], %(ids)s::bigint[], %(counts)s::int[]) AS a (tenant, id, accesses)
WHERE EXISTS (SELECT FROM {memory}.memories m WHERE m.tenant = a.tenant AND m.id = a.id)
ORDER BY a.tenant, a.id
{part added_up}
RETURNING set_config('synchronous_commit', 'off', true);

-- name: drop_counters
-- Remove counters that outlived their memories: a deletion during the count did not see the
-- counter.
DELETE FROM {memory}.usage u
USING unnest(%(tenants)s::text[], %(ids)s::bigint[]) WITH ORDINALITY AS w (tenant, id, ord)
WHERE {few} AND u.tenant = w.tenant AND u.id = w.id
  AND NOT EXISTS (SELECT FROM {memory}.memories m WHERE m.tenant = w.tenant AND m.id = w.id)
  AND NOT EXISTS (SELECT FROM {memory}.archived a WHERE a.tenant = w.tenant AND a.id = w.id);

-- name: extend
-- Extend the expiry of memories that were just read. Rows that another writer holds are left to
-- that writer.
WITH due AS MATERIALIZED (
    SELECT m.tenant, m.id, m.tier
    FROM unnest(%(tenants)s::text[], %(ids)s::bigint[]) WITH ORDINALITY AS w (tenant, id, ord)
    CROSS JOIN LATERAL (
        SELECT m.tenant, m.id, m.tier FROM {memory}.memories m
        WHERE m.tenant = w.tenant AND m.id = w.id AND m.ttl_minutes IS NOT NULL
          AND m.expires_at IS NOT NULL LIMIT 1
        FOR NO KEY UPDATE OF m SKIP LOCKED
    ) m
    WHERE {few}
)
UPDATE {memory}.memories m
SET expires_at = %(now)s::timestamptz + m.ttl_minutes * interval '1 minute'
FROM due d
WHERE m.tenant = d.tenant AND m.id = d.id AND m.tier = d.tier
RETURNING set_config('synchronous_commit', 'off', true);

-- name: lock_keys
-- Make writers of one key wait for each other. Buckets are locked in order, so that none deadlocks.
SELECT pg_advisory_xact_lock(%(lock)s::int, b.bucket) FROM unnest(%(buckets)s::int[]) AS b (bucket);

-- name: conflicts
-- Keys that live in another tier than the one of the put.
SELECT m.tenant, m.namespace, m.key, m.tier::text
FROM {places}
JOIN {memory}.memories m
  ON m.tenant = w.tenant AND m.namespace = w.namespace AND m.key = w.key
WHERE {few} AND m.tier <> %(tier)s::{memory}.tier
  AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
LIMIT 1;

-- part: elsewhere
-- True if the memory m is another user's, or another project's. Memories in long_term, or in no
-- project, belong to all projects.
(NOT {part seen} OR m.tier::text <> 'long_term' AND m.namespace !~ '^(@[^.]*\.)?$'
 AND NOT (m.namespace >= %(project_low)s AND m.namespace < %(project_high)s))

-- part: tier_life
-- The minutes that i lives by its tier; notes of a session live until the session ends.
CASE WHEN NOT (i.noted AND life.tier = 'short_term') THEN life.minutes END

-- part: new_life
-- The minutes that the memory m lives once it is put as i: its own TTL, else its tier's. Its
-- intention keeps it for as long as the intention lasts.
nullif(coalesce(i.ttl, CASE WHEN NOT EXISTS (
    SELECT FROM {memory}.intentions o WHERE o.tenant = m.tenant AND o.id = m.id
) THEN {part tier_life} END), 'Infinity')

-- part: says
-- The text of a memory: its `content`, else its `text`, else all of it.
CASE WHEN jsonb_typeof(m.value -> 'content') = 'string' THEN m.value -> 'content'
     WHEN jsonb_typeof(m.value -> 'text') = 'string' THEN m.value -> 'text'
     ELSE m.value END

-- part: says_given
-- The same of a put.
CASE WHEN jsonb_typeof(i.value -> 'content') = 'string' THEN i.value -> 'content'
     WHEN jsonb_typeof(i.value -> 'text') = 'string' THEN i.value -> 'text'
     ELSE i.value END

-- part: input
-- The puts, as given and as stored. Ids are drawn in the order of keys, so that key order breaks
-- ties within a batch. A statement in a session has a turn there: without a number it follows the
-- last turn, in the order of the batch. Other memories have a turn only if one is given.
given AS MATERIALIZED (
    SELECT i.*, max(i.turn) FILTER (WHERE i.speaker IS NOT NULL)
               OVER (PARTITION BY i.tenant, i.namespace, i.session) AS last_given
    FROM unnest(%(tenants)s::text[], %(namespaces)s::text[], %(keys)s::text[],
                %(values)s::text[], %(texts)s::text[], %(ttls)s::float8[], %(into)s::text[],
                %(sessions)s::text[], %(turns)s::int[], %(speakers)s::text[],
                %(occurred)s::timestamptz[], %(signatures)s::text[], %(tools)s::text[],
                %(valid_from)s::timestamptz[], %(valid_to)s::timestamptz[], %(noted)s::bool[],
                %(users)s::text[])
             WITH ORDINALITY AS i
             (tenant, namespace, key, value, text, ttl, tier, session, turn, speaker, occurred_at,
              signature, tool, valid_from, valid_to, noted, user_id, ord)
    WHERE i.ord > 0 AND i.ord < 1000000000
), input AS MATERIALIZED (
    SELECT i.tenant, i.namespace, i.key, i.value::jsonb AS value, i.ttl,
           i.tier::{memory}.tier AS tier, i.session, i.turn, i.speaker, i.occurred_at,
           i.signature, i.tool, i.valid_from, i.valid_to, i.noted, i.user_id,
           CASE WHEN i.session IS NOT NULL AND i.speaker IS NOT NULL AND i.turn IS NULL
           THEN greatest(i.last_given, 0, (
               SELECT m.turn FROM {memory}.memories m
               WHERE m.tenant = i.tenant AND m.namespace = i.namespace
                 AND {part in_session} = i.session
                 AND m.turn IS NOT NULL AND m.speaker IS NOT NULL
               ORDER BY m.turn DESC LIMIT 1
           )) + row_number() OVER (
               PARTITION BY i.tenant, i.namespace, i.session, i.speaker IS NULL, i.turn IS NULL
               ORDER BY i.ord
           ) END AS next_turn,
           CASE WHEN i.text <> '' THEN to_tsvector(%(language)s::regconfig, i.text)
                || array_to_tsvector(ARRAY[chr(1) || i.tenant]) END AS lexemes, i.ord
    FROM given i
), life AS (
    SELECT t.tier, t.minutes
    FROM unnest(%(tiers)s::{memory}.tier[], %(tier_ttls)s::float8[]) AS t (tier, minutes)
)

-- part: inserted
INSERT INTO {memory}.memories
    (tenant, tier, namespace, key, value, lexemes, created_at, updated_at, ttl_minutes, expires_at,
     session, turn, speaker, occurred_at, signature, tool, valid_from, valid_to, user_id)
SELECT i.tenant, i.tier, i.namespace, i.key, i.value, i.lexemes,
       %(now)s::timestamptz, %(now)s::timestamptz,
       nullif(coalesce(i.ttl, {part tier_life}), 'Infinity'),
       %(now)s::timestamptz
           + nullif(coalesce(i.ttl, {part tier_life}), 'Infinity') * interval '1 minute',
       i.session, coalesce(i.turn, i.next_turn), i.speaker, i.occurred_at, i.signature, i.tool,
       i.valid_from, i.valid_to, i.user_id
FROM input i
JOIN life ON life.tier = i.tier

-- part: held_back
-- Memories that were held in working for their content; new content starts afresh.
(c.state = 'demoted' AND EXISTS (
    SELECT FROM {memory}.memories m
    WHERE m.tenant = c.tenant AND m.id = c.id AND m.tier = 'working'
))

-- name: put
-- Update each memory where it lives, or insert it into the given tier. A `ttl` is minutes: NULL
-- takes the tier's own, Infinity never expires.
-- If a memory that lives on in another gets a new text (its `content`, else its `text`, else all of
-- it), it is a memory of its own again, and recalled; a promoted one may be promoted again. The
-- same holds, whatever its text is, if the other one was deleted.
-- Memories merged into one that gets a new text live on without it: in the memory in which that one
-- lived on, else in the oldest of them, which is recalled. If that one was not current, and lived
-- on in none, it stays out of recall, and an event says so.
-- A superseded memory with a new text starts afresh, and is true from now on unless the put says
-- otherwise; its supersession is history. So does a quarantined one with a new text that is trusted
-- from the `threshold` on. A memory that is quarantined, or came from others, and is put with the
-- same text gains no trust.
WITH {part input}, standing AS MATERIALIZED (
    SELECT m.tenant, m.id, m.key, m.state, m.alone, {part says} <> {part says_given} AS otherwise,
           {part trust_given} >= %(threshold)s::float8 AS trusted
    FROM input i
    CROSS JOIN LATERAL (
        SELECT m.tenant, m.id, m.key, m.value, m.state,
               m.state IS NOT DISTINCT FROM 'consolidated' AND NOT EXISTS (
                   SELECT FROM {memory}.lineage l
                   WHERE l.tenant = m.tenant AND l.source = m.id AND NOT l.derived
               ) AS alone
        FROM {memory}.memories m
        WHERE m.tenant = i.tenant AND m.namespace = i.namespace AND m.key = i.key LIMIT 1
    ) m
), changing AS MATERIALIZED (
    SELECT s.tenant, s.id, s.state, s.alone
    FROM standing s
    WHERE s.state IS DISTINCT FROM 'retracted' AND s.state IS DISTINCT FROM 'suspect'
      AND (s.otherwise OR s.alone) AND (s.state IS DISTINCT FROM 'quarantined' OR s.trusted)
), parted AS (
    DELETE FROM {memory}.lineage l USING changing c
    WHERE l.tenant = c.tenant AND l.source = c.id AND {part lived_on}
    RETURNING l.tenant, l.source, l.id, l.event, l.derived
), twins AS MATERIALIZED (
    SELECT t.tenant, t.id, t.source, t.event, t.key, t.recalled,
           -- The heir's own sources do not live on in it as well.
           CASE WHEN t.heir <> t.source AND NOT EXISTS (
               SELECT FROM {memory}.lineage d
               WHERE d.tenant = t.tenant AND d.id = t.heir AND d.source = t.source
           ) THEN t.heir END AS heir
    FROM (
        SELECT l.tenant, l.id, l.source, coalesce(h.event, l.event) AS event, s.key, r.recalled,
               CASE WHEN r.recalled THEN coalesce(h.id, CASE WHEN m.consolidated THEN
                   min(l.source) FILTER (WHERE m.consolidated) OVER (PARTITION BY l.tenant, l.id)
               END) END AS heir
        FROM standing s
        CROSS JOIN LATERAL (
            SELECT s.state IS NULL OR s.state = 'demoted'
                   OR s.state = 'consolidated' AND NOT s.alone AS recalled
        ) r
        CROSS JOIN LATERAL (
            SELECT l.* FROM {memory}.lineage l
            WHERE l.tenant = s.tenant AND l.id = s.id AND NOT l.derived OFFSET 0
        ) l
        CROSS JOIN LATERAL (
            SELECT e.kind FROM {memory}.events e
            WHERE e.tenant = l.tenant AND e.event = l.event LIMIT 1
        ) e
        CROSS JOIN LATERAL (
            SELECT m.state IS NOT DISTINCT FROM 'consolidated' AS consolidated
            FROM {memory}.memories m WHERE m.tenant = l.tenant AND m.id = l.source LIMIT 1
        ) m
        LEFT JOIN LATERAL (
            SELECT p.id, p.event FROM parted p
            WHERE p.tenant = s.tenant AND p.source = s.id AND s.state = 'consolidated'
              AND NOT p.derived AND NOT EXISTS (
                  SELECT FROM standing o WHERE o.tenant = p.tenant AND o.id = p.id AND o.otherwise
              )
            LIMIT 1
        ) h ON true
        WHERE s.otherwise AND e.kind = 'merged'
          AND NOT EXISTS (SELECT FROM changing c WHERE c.tenant = l.tenant AND c.id = l.source)
    ) t
), inherited AS (
    UPDATE {memory}.lineage l SET id = t.heir, event = t.event FROM twins t
    WHERE l.tenant = t.tenant AND l.id = t.id AND l.source = t.source AND t.heir IS NOT NULL
), let_go AS (
    DELETE FROM {memory}.lineage l USING twins t
    WHERE l.tenant = t.tenant AND l.id = t.id AND l.source = t.source AND t.heir IS NULL
    RETURNING l.tenant, l.source, t.key, t.recalled
), freed AS (
    UPDATE {memory}.memories m SET state = NULL, state_at = NULL FROM let_go l
    WHERE m.tenant = l.tenant AND m.id = l.source AND m.state = 'consolidated' AND l.recalled
      AND NOT EXISTS (SELECT FROM standing s WHERE s.tenant = l.tenant AND s.id = l.source)
), told AS (
    INSERT INTO {memory}.events (tenant, event, kind, id, at, detail)
    SELECT l.tenant, 'deleted-' || l.source || '-' || nextval('{memory}.memory_ids'), 'deleted',
           l.source, %(now)s::timestamptz,
           jsonb_build_object('reasons', jsonb_build_array(
               'it lived on in ' || l.key || ', which says something else now'))
    FROM let_go l WHERE NOT l.recalled
), ended AS (
    UPDATE {memory}.events e
    SET undone_at = %(now)s::timestamptz, detail = e.detail || '{"anew": true}'
    FROM changing c
    WHERE (c.state IN ('superseded', 'quarantined') OR c.alone OR {part held_back}) AND e.tenant = c.tenant
      AND e.id = c.id AND e.kind = CASE WHEN c.alone THEN 'deleted' ELSE c.state END
      AND e.undone_at IS NULL
), anew AS (
    SELECT p.tenant, p.source AS id, 'consolidated' AS state FROM parted p WHERE NOT p.derived
    UNION ALL
    SELECT l.tenant, l.source, 'consolidated' FROM let_go l WHERE l.recalled
    UNION ALL
    SELECT c.tenant, c.id, c.state FROM changing c
    WHERE c.state IN ('superseded', 'quarantined') OR c.alone OR {part held_back}
), updated AS (
    UPDATE {memory}.memories m
    SET value = CASE
            WHEN {part trust} < {part trust_given} AND {part says} = {part says_given}
                 AND (m.state IS NOT DISTINCT FROM 'quarantined' OR EXISTS (
                     SELECT FROM {memory}.lineage l WHERE l.tenant = m.tenant AND l.id = m.id))
            THEN i.value || jsonb_build_object(
                'trust', {part trust}, 'source', coalesce(m.value -> 'source', '"unknown"'))
            ELSE i.value END,
        lexemes = i.lexemes,
        session = i.session,
        turn = coalesce(
            i.turn, CASE WHEN m.session = i.session AND i.speaker IS NOT NULL THEN m.turn END,
            i.next_turn),
        speaker = i.speaker,
        occurred_at = i.occurred_at,
        signature = i.signature,
        tool = i.tool,
        user_id = i.user_id,
        valid_from = CASE
            WHEN i.valid_from IS NULL AND i.occurred_at IS NULL AND m.state = 'superseded' AND EXISTS (
                SELECT FROM anew a WHERE a.tenant = m.tenant AND a.id = m.id AND a.state = m.state
            ) THEN %(now)s::timestamptz ELSE i.valid_from END,
        -- A superseded memory was true until then, whatever the put says.
        valid_to = CASE WHEN m.state IS NOT NULL AND NOT EXISTS (
            SELECT FROM anew a WHERE a.tenant = m.tenant AND a.id = m.id AND a.state = m.state
        ) AND EXISTS (
            SELECT FROM {memory}.events e
            WHERE e.tenant = m.tenant AND e.id = m.id AND e.kind = 'superseded'
              AND e.undone_at IS NULL
        ) THEN m.valid_to ELSE i.valid_to END,
        state = CASE WHEN NOT EXISTS (
            SELECT FROM anew a WHERE a.tenant = m.tenant AND a.id = m.id AND a.state = m.state
        ) THEN m.state END,
        state_at = CASE WHEN NOT EXISTS (
            SELECT FROM anew a WHERE a.tenant = m.tenant AND a.id = m.id AND a.state = m.state
        ) THEN m.state_at END,
        updated_at = greatest(%(now)s::timestamptz, m.updated_at + interval '1 microsecond'),
        ttl_minutes = {part new_life},
        expires_at = %(now)s::timestamptz + {part new_life} * interval '1 minute'
    FROM input i, life
    WHERE m.tenant = i.tenant AND m.namespace = i.namespace AND m.key = i.key
      AND life.tier = m.tier
    RETURNING m.tenant, m.namespace, m.key
)
{part inserted}
WHERE NOT EXISTS (
    SELECT FROM updated u
    WHERE u.tenant = i.tenant AND u.namespace = i.namespace AND u.key = i.key
)
ORDER BY i.tenant, i.namespace, i.key;

-- name: put_new
-- The same if no memory exists under the keys, once they are locked.
WITH {part input}
{part inserted}
ORDER BY i.tenant, i.namespace, i.key;

-- name: delete_vectors
-- Delete the vectors of memories before the new ones are written.
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

-- part: hanging
-- Delete the rows that depend on memories that are `gone`.
vectors AS (
    DELETE FROM {memory}.vectors v USING gone g
    WHERE v.tenant = g.tenant AND v.tier = g.tier AND v.namespace = g.namespace AND v.id = g.id
), shown AS MATERIALIZED (
    SELECT e.tenant, e.run, e.id
    FROM {memory}.exposures e JOIN gone g ON e.tenant = g.tenant AND e.id = g.id
    ORDER BY e.tenant, e.run, e.id FOR UPDATE OF e
), exposures AS (
    DELETE FROM {memory}.exposures e USING shown s
    WHERE e.tenant = s.tenant AND e.run = s.run AND e.id = s.id
), origins AS (
    DELETE FROM {memory}.lineage l USING gone g WHERE l.tenant = g.tenant AND l.source = g.id
    RETURNING l.tenant, l.id, g.key, g.state, g.namespace ~ '(^|\.)@[^.]*\.$' AS personal
), orphans AS (
    -- Memories that came from a retracted or suspect one stay out of recall without it.
    UPDATE {memory}.memories m SET state = 'retracted' FROM origins o
    WHERE m.tenant = o.tenant AND m.id = o.id AND m.state = 'suspect'
      AND o.state IN ('retracted', 'suspect')
      AND NOT EXISTS (SELECT FROM gone g WHERE g.tenant = o.tenant AND g.id = o.id)
    RETURNING m.tenant, m.id, m.state_at,
              CASE WHEN o.personal AND m.user_id IS NULL THEN 'what is a user''s own' ELSE o.key END AS key
), told AS (
    INSERT INTO {memory}.events (tenant, event, kind, id, at, detail)
    SELECT o.tenant, 'orphaned-' || o.id || '-' || nextval('{memory}.memory_ids'), 'retracted',
           o.id, o.state_at,
           jsonb_build_object('reasons', jsonb_build_array('it came from ' || o.key
               || ', which was deleted while it was retracted or suspect'))
    FROM orphans o
), edges AS (
    DELETE FROM {memory}.lineage l USING gone g WHERE l.tenant = g.tenant AND l.id = g.id
    RETURNING l.tenant, l.id, l.source, l.derived, l.event, g.key
)

-- part: hidden
-- For memories that lived on in deleted ones: if twins are to 'stay', those that were merged stay
-- out of recall, and an event says so.
hidden AS MATERIALIZED (
    SELECT l.tenant, l.source, l.key, w.now
    FROM wanted w
    CROSS JOIN edges l
    CROSS JOIN LATERAL (
        SELECT e.kind FROM {memory}.events e
        WHERE e.tenant = l.tenant AND e.event = l.event LIMIT 1
    ) e
    WHERE NOT l.derived AND w.twins = 'stay' AND e.kind = 'merged'
      AND NOT EXISTS (SELECT FROM gone g WHERE g.tenant = l.tenant AND g.id = l.source)
      AND NOT EXISTS (
          SELECT FROM {memory}.events o
          WHERE o.tenant = l.tenant AND o.id = l.id AND o.kind = 'demoted' AND o.undone_at IS NULL
      )
), alone AS (
    INSERT INTO {memory}.events (tenant, event, kind, id, at, detail)
    SELECT l.tenant, 'deleted-' || l.source || '-' || nextval('{memory}.memory_ids'), 'deleted',
           l.source, l.now,
           jsonb_build_object('reasons', jsonb_build_array(
               'it lived on in ' || l.key || ', which was deleted'))
    FROM hidden l
)

-- part: none_hidden
-- Recall again all memories that lived on in deleted ones.
hidden AS (
    SELECT l.tenant, l.source FROM edges l WHERE false
)

-- part: freed
-- Memories that lived on in deleted ones, and are not `hidden`, are current again. The deleted
-- ones' intentions are deleted, and their counters locked.
sources AS (
    -- A memory that lived on in a deleted one is current again, unless it is deleted as well.
    UPDATE {memory}.memories m SET state = NULL, state_at = NULL FROM edges l
    WHERE m.tenant = l.tenant AND m.id = l.source AND m.state = 'consolidated' AND NOT l.derived
      AND NOT EXISTS (SELECT FROM gone g WHERE g.tenant = l.tenant AND g.id = l.source)
      AND NOT EXISTS (SELECT FROM hidden t WHERE t.tenant = l.tenant AND t.source = l.source)
), intended AS MATERIALIZED (
    SELECT i.tenant, i.id
    FROM {memory}.intentions i JOIN gone g ON i.tenant = g.tenant AND i.id = g.id
    ORDER BY i.tenant, i.id FOR UPDATE OF i
), intentions AS (
    DELETE FROM {memory}.intentions i USING intended t
    WHERE i.tenant = t.tenant AND i.id = t.id
), counters AS (
    -- Exposures are locked first, as settle does: the count waits until they are.
    SELECT u.tenant, u.id FROM {memory}.usage u JOIN gone g ON u.tenant = g.tenant AND u.id = g.id
    WHERE (SELECT count(*) FROM shown) >= 0
    ORDER BY u.tenant, u.id FOR UPDATE OF u
)

-- name: delete
-- Delete memories with all rows that depend on them. Archived memories under these keys are
-- forgotten too, so that no restore brings them back. The tier is compared as text: else a planner
-- without statistics goes by tenant and tier. With `twins` 'go' their twins are deleted as well:
-- memories that were merged with one, either way, or with such a one. A twin that was put again
-- since the statement began is current again instead. With 'stay' twins are kept, out of recall.
WITH RECURSIVE wanted AS (
    SELECT %(twins)s::text AS twins, %(now)s::timestamptz AS now
), twins AS (
    SELECT m.tenant, m.id, m.namespace, m.key, m.updated_at, true AS meant
    FROM {places}
    CROSS JOIN LATERAL (
        SELECT * FROM {memory}.memories m
        WHERE m.tenant = w.tenant AND m.namespace = w.namespace AND m.key = w.key
          AND m.tier::text = ANY (%(tiers)s::text[]) LIMIT 1
    ) m
    WHERE {few} AND %(twins)s::text = 'go'
    UNION
    SELECT m.tenant, m.id, m.namespace, m.key, m.updated_at, false
    FROM twins t
    CROSS JOIN LATERAL (
        SELECT CASE WHEN l.id = t.id THEN l.source ELSE l.id END AS id
        FROM (
            SELECT l.* FROM {memory}.lineage l
            WHERE l.tenant = t.tenant AND l.id = t.id AND NOT l.derived
            UNION ALL
            SELECT l.* FROM {memory}.lineage l
            WHERE l.tenant = t.tenant AND l.source = t.id AND NOT l.derived
        ) l
        CROSS JOIN LATERAL (
            SELECT e.kind FROM {memory}.events e
            WHERE e.tenant = l.tenant AND e.event = l.event LIMIT 1
        ) e
        WHERE e.kind = 'merged'
    ) o
    CROSS JOIN LATERAL (
        SELECT * FROM {memory}.memories m WHERE m.tenant = t.tenant AND m.id = o.id LIMIT 1
    ) m
), others AS MATERIALIZED (
    SELECT t.* FROM twins t
    WHERE NOT t.meant AND NOT EXISTS (SELECT FROM twins o WHERE o.meant AND o.id = t.id)
), removed AS (
    DELETE FROM {memory}.memories m
    USING {places}
    WHERE {few} AND m.tenant = w.tenant AND m.namespace = w.namespace AND m.key = w.key
      AND m.tier::text = ANY (%(tiers)s::text[])
    RETURNING m.tenant, m.tier, m.namespace, m.id, m.key, m.state
), forgotten AS (
    DELETE FROM {memory}.archived a
    USING {places}
    WHERE {few} AND a.tenant = w.tenant AND a.namespace = w.namespace AND a.key = w.key
      AND a.tier::text = ANY (%(tiers)s::text[])
    RETURNING a.tenant, a.tier, a.namespace, a.id, a.key, NULL::text
), along AS (
    DELETE FROM {memory}.memories m USING others t
    WHERE m.tenant = t.tenant AND m.id = t.id AND m.updated_at = t.updated_at
    RETURNING m.tenant, m.tier, m.namespace, m.id, m.key, m.state
), unlisted AS (
    DELETE FROM {memory}.archived a USING others t
    WHERE a.tenant = t.tenant AND a.namespace = t.namespace AND a.key = t.key
    RETURNING a.tenant, a.tier, a.namespace, a.id, a.key, NULL::text
), gone AS (
    SELECT * FROM removed UNION ALL SELECT * FROM forgotten
    UNION ALL SELECT * FROM along UNION ALL SELECT * FROM unlisted
), {part hanging}, {part hidden}, {part freed}
DELETE FROM {memory}.usage u USING counters c WHERE u.tenant = c.tenant AND u.id = c.id;

-- name: delete_expired
-- Delete those of the memories that had expired by then, with all rows that depend on them.
WITH gone AS (
    DELETE FROM {memory}.memories m
    USING {places}
    WHERE {few} AND m.tenant = w.tenant AND m.namespace = w.namespace AND m.key = w.key
      AND m.tier::text = ANY (%(tiers)s::text[]) AND m.expires_at <= %(expired_by)s::timestamptz
    RETURNING m.tenant, m.tier, m.namespace, m.id, m.key, m.state
), {part hanging}, {part none_hidden}, {part freed}
DELETE FROM {memory}.usage u USING counters c WHERE u.tenant = c.tenant AND u.id = c.id;

-- name: sweep
-- Delete a batch of expired memories with all rows that depend on them. Returns their count, and
-- how many of them nobody had read.
-- The size of a batch is a literal, so that the planner knows how few rows it gets. A memory that
-- was put again since the statement began is left to the next one, however soon it expired: its new
-- vectors are not visible here. A memory that the next cycle would lift into its project waits so
-- long for that cycle, but not if a caller chose its life, as in select_rising.
WITH expired AS MATERIALIZED (
    SELECT m.tenant, m.tier, m.id
    FROM {memory}.memories m
    CROSS JOIN LATERAL (
        SELECT s.updated_at FROM {memory}.memories s
        WHERE s.tenant = m.tenant AND s.tier = m.tier AND s.id = m.id LIMIT 1
    ) s
    WHERE m.expires_at <= %(now)s AND m.updated_at = s.updated_at
      AND NOT (
          m.tier = 'short_term' AND m.state IS NULL AND m.ttl_minutes = %(life)s::float8
          AND m.expires_at > %(since)s::timestamptz
          AND (CASE jsonb_typeof(m.value -> 'importance')
               WHEN 'number' THEN (m.value ->> 'importance')::numeric >= %(importance)s::float8::numeric
               ELSE false END
               OR EXISTS (
                   SELECT FROM {memory}.usage u
                   WHERE u.tenant = m.tenant AND u.id = m.id
                     AND u.access_count >= %(accesses)s::int))
          AND NOT EXISTS (
              SELECT FROM {memory}.cycles c
              WHERE c.tenant = m.tenant AND c.step = 'cycle' AND c.seen >= m.expires_at)
      )
    ORDER BY m.expires_at
    LIMIT 200
    FOR UPDATE OF m SKIP LOCKED
), gone AS (
    DELETE FROM {memory}.memories m USING expired e
    WHERE m.tenant = e.tenant AND m.tier = e.tier AND m.id = e.id
    RETURNING m.tenant, m.tier, m.namespace, m.id, m.key, m.state
), {part hanging}, {part none_hidden}, {part freed}, uncounted AS (
    DELETE FROM {memory}.usage u USING counters c WHERE u.tenant = c.tenant AND u.id = c.id
)
SELECT count(*), count(*) FILTER (WHERE NOT EXISTS (
    SELECT FROM {memory}.usage u WHERE u.tenant = g.tenant AND u.id = g.id AND u.access_count > 0
))
FROM gone g;

-- part: life
-- The minutes that the memory m lives in a new tier, or as long as its intention.
CASE WHEN NOT EXISTS (
    SELECT FROM {memory}.intentions i WHERE i.tenant = m.tenant AND i.id = m.id
) THEN %(ttl)s::float8 END

-- name: move
-- Change a memory's tier. It keeps its id, namespace, key, value, vectors and counters, and takes
-- the new tier's life. Outside long_term not everybody sees it: the memories that lived on in it
-- are current again, and a promoted one may be promoted again. (An attempt lives on in its lesson
-- wherever that is.)
WITH moved AS (
    UPDATE {memory}.memories m
    SET tier = %(tier)s::{memory}.tier,
        ttl_minutes = {part life},
        expires_at = %(now)s::timestamptz + {part life} * interval '1 minute'
    WHERE m.tenant = %(tenant)s AND m.namespace = %(namespace)s AND m.key = %(key)s
      AND m.tier <> %(tier)s::{memory}.tier
      AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
    RETURNING m.tenant, m.namespace, m.id
), vectors AS (
    UPDATE {memory}.vectors v SET tier = %(tier)s::{memory}.tier FROM moved g
    WHERE v.tenant = g.tenant AND v.namespace = g.namespace AND v.id = g.id
), edges AS (
    DELETE FROM {memory}.lineage l USING moved g
    WHERE l.tenant = g.tenant AND l.id = g.id AND %(tier)s::{memory}.tier <> 'long_term'
      AND {part lived_on} AND NOT EXISTS (
          SELECT FROM {memory}.events e
          WHERE e.tenant = l.tenant AND e.event = l.event AND e.kind = 'reflected'
      )
    RETURNING l.tenant, l.source
), sources AS (
    UPDATE {memory}.memories m SET state = NULL, state_at = NULL FROM edges l
    WHERE m.tenant = l.tenant AND m.id = l.source AND m.state = 'consolidated'
)
SELECT count(*) FROM moved;

-- leg: search_newest
(
    SELECT m.tenant, m.namespace, m.key, m.value, m.created_at, m.updated_at,
           m.tier::text, m.expires_at, m.ttl_minutes, m.id, NULL::float8 AS distance
    FROM {memory}.memories m
    WHERE m.tier = '{tier}' AND {m_scope} {filter}
      AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
      AND m.state IS DISTINCT FROM 'quarantined'
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
        WHERE v.tier = '{tier}' AND {v_scope}
        ORDER BY distance, v.id
    ) c
    CROSS JOIN LATERAL (
        SELECT m.tenant, m.namespace, m.key, m.value, m.created_at, m.updated_at,
               m.tier, m.expires_at, m.ttl_minutes, m.id
        FROM {memory}.memories m
        WHERE m.tenant = c.tenant AND m.id = c.id AND m.tier = '{tier}' AND {m_tenant}
          AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
      AND m.state IS DISTINCT FROM 'quarantined' {filter}
        LIMIT 1
    ) m
    ORDER BY c.distance, c.id
    LIMIT %(wanted)s
)

-- name: search_single
-- search_exact for a first page of memories with one vector each, which need no grouping. A memory
-- with several would come more than once: the caller then runs search_exact. The "+ 0" keeps the
-- planner from the vector index, which would not be exact.
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
        WHERE v.tier = '{tier}' AND {v_scope}
        GROUP BY v.tenant, v.namespace, v.id
        ORDER BY distance, v.id
    ) c
    CROSS JOIN LATERAL (
        SELECT m.tenant, m.namespace, m.key, m.value, m.created_at, m.updated_at,
               m.tier, m.expires_at, m.ttl_minutes, m.id
        FROM {memory}.memories m
        WHERE m.tenant = c.tenant AND m.id = c.id AND m.tier = '{tier}' AND {m_tenant}
          AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
      AND m.state IS DISTINCT FROM 'quarantined' {filter}
        LIMIT 1
    ) m
    ORDER BY c.distance, c.id
    LIMIT %(wanted)s
)

-- name: search_exact
-- Nearest first by the configured metric, exact; ties in the order of ids. In each tier, one index
-- has the vectors of the scope. Their memories are looked up in order of distance (LATERAL … LIMIT
-- 1 ensures that), and only until the page is full.
{legs}
ORDER BY distance, id
LIMIT %(limit)s OFFSET %(offset)s;

-- name: search_unembedded
-- Memories without a vector, newest first: they follow those with one, and begin where those end.
WITH visible AS (
    SELECT m.*, EXISTS (
        SELECT FROM {memory}.vectors v
        WHERE v.tenant = m.tenant AND v.namespace = m.namespace AND v.id = m.id
          AND v.tier = m.tier
    ) AS embedded
    FROM {memory}.memories m
    WHERE m.tier::text = ANY (%(tiers)s::text[]) AND {m_scope} {filter}
      AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
      AND m.state IS DISTINCT FROM 'quarantined'
)
SELECT m.tenant, m.namespace, m.key, m.value, m.created_at, m.updated_at,
       m.tier::text, m.expires_at, m.ttl_minutes, m.id, NULL::float8 AS distance
FROM visible m
WHERE NOT m.embedded
ORDER BY m.updated_at DESC, m.tenant, m.namespace, m.key
LIMIT %(limit)s
OFFSET greatest(0, %(offset)s::bigint - (SELECT count(*) FROM visible WHERE embedded));

-- name: ann_settings
-- For the next statement: scan widely, go on while rows are filtered out, and use an index's own
-- order where there is a choice.
SELECT set_config('hnsw.ef_search', %(ef_search)s, true),
       set_config('hnsw.iterative_scan', 'relaxed_order', true),
       set_config('enable_sort', 'off', true);

-- name: hnsw_settings
-- For this transaction: scan widely, and go on while rows are filtered out.
SELECT set_config('hnsw.ef_search', %(ef_search)s, true),
       set_config('hnsw.iterative_scan', 'relaxed_order', true);

-- name: usual_settings
-- The settings for which all other statements are planned.
SELECT set_config('enable_sort', 'on', true);

-- leg: search_ann
(
    SELECT v.tenant, v.tier, v.namespace, v.id,
           (v.embedding {operator} %(query)s::{vector_type}) + 0 AS distance
    FROM {memory}.vectors v {filter_join {tier}}
    WHERE v.tier = '{tier}' AND (SELECT NOT p.big FROM probe p WHERE p.tier = '{tier}')
      AND {v_scope} {filter}
    ORDER BY 5
    LIMIT %(candidates)s
)
UNION ALL
(
    SELECT v.tenant, v.tier, v.namespace, v.id,
           v.embedding {operator} %(query)s::{vector_type} AS distance
    FROM {memory}.vectors v {filter_join {tier}}
    WHERE v.tier = '{tier}' AND (SELECT p.big FROM probe p WHERE p.tier = '{tier}')
      AND {v_scope} {filter}
    ORDER BY v.embedding {operator} %(query)s::{vector_type}
    LIMIT %(candidates)s
)

-- name: search_ann
-- Nearest first in tiers with an HNSW index. A scope of few vectors is still searched exactly: the
-- probe counts, if nothing is counted yet, and stops at the limit. The number of candidates does
-- not depend on the page, so that pages neither lose nor repeat memories. It may return fewer rows
-- than wanted, if a filter is selective or memories have many vectors: the caller then runs
-- search_exact.
WITH probe AS MATERIALIZED (
    SELECT t.tier, coalesce((
        SELECT CASE WHEN EXISTS (
                   SELECT FROM unnest(s.tiers, s.crowded) AS n (tier, namespace)
                   WHERE n.tier = t.tier AND {n_scope}
               ) THEN true
               WHEN s.memories <= %(exact_limit)s THEN false END
        FROM {memory}.tenant_sizes s WHERE {s_scope}
    ), (
        SELECT count(*) FROM (
            SELECT FROM {memory}.vectors v WHERE v.tier = t.tier AND {v_scope}
            LIMIT %(exact_limit)s + 1
        ) few
    ) > %(exact_limit)s) AS big
    FROM unnest(%(tiers)s::{memory}.tier[]) AS t (tier)
)
SELECT m.tenant, m.namespace, m.key, m.value, m.created_at, m.updated_at,
       m.tier::text, m.expires_at, m.ttl_minutes, m.id, n.distance
FROM (
    SELECT c.tenant, c.tier, c.namespace, c.id, min(c.distance) AS distance
    FROM ({legs}) c
    GROUP BY c.tenant, c.tier, c.namespace, c.id
    ORDER BY distance, c.id
) n
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m
    WHERE m.tenant = n.tenant AND m.id = n.id AND m.tier = n.tier AND {m_tenant}
      AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
      AND m.state IS DISTINCT FROM 'quarantined'
    LIMIT 1
) m
ORDER BY n.distance, n.id
LIMIT %(limit)s OFFSET %(offset)s;

-- part: plain_question
-- The question without case, marks and further spaces.
btrim(regexp_replace(lower(translate(%(text)s::text, %(marks)s, '')), '\s+', ' ', 'g'))

-- part: content
-- The content of a memory, as text; NULL if it is no text.
CASE WHEN jsonb_typeof(m.value -> 'content') = 'string' THEN m.value ->> 'content'
     WHEN jsonb_typeof(m.value -> 'text') = 'string' THEN m.value ->> 'text' END

-- part: plain_content
-- The same without case, marks and further spaces.
btrim(regexp_replace(lower(translate({part content}, %(marks)s, '')), '\s+', ' ', 'g'))

-- part: asks_again
-- True if a memory is the question q, alone or behind the name of its speaker, and nothing else: it
-- has only fields that any memory has, and fields of notes only if it was said.
CASE WHEN coalesce(length({part content}) > q.longest, true) THEN false
     WHEN NOT (%(asks)s::boolean OR {part content} ~ '[?？؟]') THEN false
     WHEN m.value - %(facts)s::text[] - CASE WHEN m.speaker IS NULL THEN '' ELSE 'metadata' END
          <> '{}' THEN false
     ELSE {part plain_content}
          = ANY (q.forms || (coalesce(lower(m.speaker) || ' ', '') || q.plain)) END

-- part: again
-- The same, by the words found: the question itself has all of them. Names do not count, and text
-- that is not indexed has no words.
CASE WHEN m.lexemes IS NOT NULL AND EXISTS (SELECT FROM words w WHERE w.sought)
     THEN m.id = ANY (ARRAY(SELECT h.id FROM hits h WHERE h.asks_again))
     ELSE {part asks_again} END

-- part: wanted
-- Memories that match the conditions, and are neither expired nor the question itself.
(m.expires_at IS NULL OR m.expires_at > %(alive_at)s) AND {part asked} {filter}
AND NOT {part again}

-- part: whose
-- The user that owns it, '' for all, as an index has it; behind the wall no index can read
-- coalesce.
CASE WHEN m.user_id IS NULL THEN '' ELSE m.user_id END

-- part: kind
-- The beginning of its type, in the form of memories_kinds, which no other statement uses: so the
-- planner knows that this index finds few.
left(coalesce(m.value ->> 'memory_type', 'episodic'), 100) || ''

-- part: own_distance
-- Its distance to the query, by its nearest vector.
SELECT min(v.embedding {operator} %(query)s::{vector_type}) AS distance FROM {memory}.vectors v
WHERE v.tier = '{tier}' AND v.tenant = %(tenant)s AND v.namespace = m.namespace AND v.id = m.id

-- part: of_types
-- The ids of a tier's visible memories of the types asked for, by an index on the beginnings of
-- types. A leg returns at most `most` and one more, which says that there are too many.
SELECT s.id
FROM (SELECT DISTINCT left(unnest(%(memory_types)s::text[]), 100) AS memory_type) y
CROSS JOIN (SELECT b.most FROM big b WHERE b.tier = '{tier}') b
CROSS JOIN LATERAL (
    [owner: SELECT s.id FROM viewers w CROSS JOIN LATERAL (
        SELECT s.id FROM {memory}.memories s
        WHERE s.tenant = %(tenant)s AND s.tier = '{tier}' AND {part whose s} = w.user_id
          AND {part kind s} = y.memory_type
        OFFSET 0
    ) s
    | walled: SELECT s.id
    FROM {memory}.of_type('{tier}', y.memory_type, %(user_id)s::text, b.most + 1) AS s (id)]
) s

-- part: few_of_types
-- True if types are asked for that have so few memories that all of them are searched: no more than
-- `most` and, if all can be searched, than a tenth of the prefix, which is faster than all of it.
%(memory_types)s::text[] IS NOT NULL AND (
    SELECT f.memories <= b.most AND (b.big OR f.memories * 10 <= (
        SELECT count(*) FROM (
            SELECT FROM {memory}.vectors v
            WHERE v.tier = '{tier}' AND v.tenant = %(tenant)s
              AND v.namespace >= %({tier}_low)s AND v.namespace < %({tier}_high)s
            LIMIT f.memories * 10
        ) v
    ))
    FROM big b, (SELECT count(*) AS memories FROM of_types) f WHERE b.tier = '{tier}'
)

-- part: all_by_distance
-- All vectors of a tier's prefix, nearest first.
SELECT v.id, v.field, (v.embedding {operator} %(query)s::{vector_type}) + 0 AS distance
FROM {memory}.vectors v
WHERE v.tier = '{tier}' AND v.tenant = %(tenant)s
  AND v.namespace >= %({tier}_low)s AND v.namespace < %({tier}_high)s
  AND %(query)s::{vector_type} IS NOT NULL AND (SELECT b.by FROM by b) = 'all'
ORDER BY distance, v.id

-- part: types_by_distance
-- The memories of rare types, nearest first.
SELECT m.id, NULL::text AS field, v.distance
FROM of_types t
CROSS JOIN LATERAL (
    SELECT s.id, s.namespace FROM {memory}.memories s
    WHERE s.tenant = %(tenant)s AND s.tier = '{tier}' AND s.id = t.id
      AND s.namespace >= %({tier}_low)s AND s.namespace < %({tier}_high)s
    LIMIT 1
) m
CROSS JOIN LATERAL ({part own_distance}) v
WHERE %(query)s::{vector_type} IS NOT NULL AND v.distance IS NOT NULL
  AND (SELECT b.by FROM by b) = 'type'
ORDER BY v.distance, m.id

-- part: if_wanted
-- The row of c.id, if it matches.
SELECT m.id, m.tier, m.namespace
FROM {memory}.memories m, question q
WHERE m.tenant = %(tenant)s AND m.id = c.id AND m.tier = '{tier}'
  AND m.namespace >= %({tier}_low)s AND m.namespace < %({tier}_high)s AND {part wanted}
LIMIT 1

-- part: nearest_of_all_or_types
-- Each memory by the nearest of its vectors alone.
SELECT m.id, m.tier, c.distance
FROM (
    ({part all_by_distance})
    UNION ALL
    ({part types_by_distance})
    ORDER BY distance, id
) c
CROSS JOIN LATERAL ({part if_wanted}) m
WHERE c.field IS NULL OR c.field = (
    SELECT v.field FROM {memory}.vectors v
    WHERE v.tier = '{tier}' AND v.tenant = %(tenant)s AND v.namespace = m.namespace AND v.id = m.id
    ORDER BY (v.embedding {operator} %(query)s::{vector_type}) + 0, v.field
    LIMIT 1
)
ORDER BY c.distance, c.id
LIMIT %(pool)s

-- leg: recall_words
-- Memories of a tier's prefix with any of the words; if all words are frequent, some of the
-- memories with all of them. A memory with all words may be the question.
(
    SELECT m.id, m.tier, m.namespace, {part in_session} AS session, m.turn, m.lexemes,
           CASE WHEN m.lexemes @@ q.words THEN {part asks_again} ELSE false END AS asks_again
    FROM [owner: {memory}.memories m, terms, question q
    WHERE m.tier = '{tier}' AND m.lexemes @@ terms.in_scope AND (m.tenant || '') = %(tenant)s | walled: terms, question q, {memory}.with_words(
        '{tier}', terms.in_scope, %({tier}_low)s, %({tier}_high)s,
        CASE WHEN EXISTS (SELECT FROM words w WHERE w.sought) THEN NULL ELSE 2800 END
    ) m
    WHERE m.tenant = %(tenant)s]
      AND m.namespace >= %({tier}_low)s AND m.namespace < %({tier}_high)s
      AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s) AND {part asked} {filter}
    LIMIT CASE WHEN EXISTS (SELECT FROM words w WHERE w.sought) THEN NULL ELSE 700 END
)

-- leg: recall_near
-- The nearest of a tier's prefix, exact as in search_single; of rare types, if few are asked for.
(
    WITH of_types AS MATERIALIZED (
        {part of_types}
        LIMIT (SELECT b.most + 1 FROM big b WHERE b.tier = '{tier}')
    ), by AS MATERIALIZED (
        SELECT CASE WHEN {part few_of_types} THEN 'type' ELSE 'all' END AS by
    )
    {part nearest_of_all_or_types}
)

-- leg: recall_dated
-- Memories of the days that the question names, nearest first in a tier's prefix: if there are more
-- than 500, those of the first days.
(
    SELECT d.id, d.tier
    FROM (
        SELECT m.id, m.tier, m.namespace
        FROM unnest(%(first_days)s::timestamptz[], %(last_days)s::timestamptz[]) AS w (first, last)
        CROSS JOIN LATERAL (
            SELECT m.id, m.tier, m.namespace
            FROM {memory}.memories m, question q
            WHERE m.tier = '{tier}' AND m.tenant = %(tenant)s
              AND m.occurred_at >= w.first AND m.occurred_at < w.last
              AND m.namespace >= %({tier}_low)s AND m.namespace < %({tier}_high)s
              AND {part wanted}
            ORDER BY m.occurred_at, m.id LIMIT 500
        ) m
    ) d
    ORDER BY (
        SELECT min(v.embedding {operator} %(query)s::{vector_type}) FROM {memory}.vectors v
        WHERE v.tier = d.tier AND v.tenant = %(tenant)s AND v.namespace = d.namespace
          AND v.id = d.id
    ), d.id
    LIMIT %(pool)s
)

-- leg: recall_near_ann
-- The same in a tier with an HNSW index. If the scope has too many vectors for exact search, the
-- matching ones of its nearest; if these are too few, all matching ones are searched: of a rare
-- type, of one user of a tenant, or of a scope within it.
(
    WITH nearest AS MATERIALIZED (
        SELECT m.id, c.distance
        FROM (
            SELECT w.id, min(w.distance) AS distance
            FROM (
                SELECT v.id, v.embedding {operator} %(query)s::{vector_type} AS distance
                FROM {memory}.vectors v
                -- One condition, of which the planner expects half of all rows: else it sorts them
                -- all.
                WHERE v.tier = '{tier}' AND (SELECT b.big FROM big b WHERE b.tier = '{tier}')
                  AND coalesce(v.tenant = %(tenant)s AND v.namespace >= %({tier}_low)s
                               AND v.namespace < %({tier}_high)s, false)
                ORDER BY v.embedding {operator} %(query)s::{vector_type}
                LIMIT greatest(%(ef_search)s, 4 * %(pool)s)
            ) w
            GROUP BY w.id
            ORDER BY distance, w.id
        ) c
        CROSS JOIN LATERAL ({part if_wanted}) m
        ORDER BY c.distance, c.id
        LIMIT %(pool)s
    ), enough AS MATERIALIZED (
        SELECT b.big AND (SELECT count(*) FROM nearest) >= %(pool)s AS enough
        FROM big b WHERE b.tier = '{tier}'
    ), of_types AS MATERIALIZED (
        {part of_types}
        WHERE NOT (SELECT e.enough FROM enough e)
        LIMIT (SELECT b.most + 1 FROM big b WHERE b.tier = '{tier}')
    ), by AS MATERIALIZED (
        SELECT CASE WHEN e.enough THEN 'nearness' WHEN {part few_of_types} THEN 'type'
                    WHEN b.big AND %({tier}_low)s = '' THEN 'viewer' ELSE 'all' END AS by
        FROM enough e, big b WHERE b.tier = '{tier}'
    )
    SELECT n.id, '{tier}'::{memory}.tier AS tier, n.distance
    FROM nearest n WHERE (SELECT b.by FROM by b) = 'nearness'
    UNION ALL
    ({part nearest_of_all_or_types})
    UNION ALL
    (
        SELECT m.id, m.tier, v.distance
        FROM viewers w
        CROSS JOIN LATERAL (
            SELECT m.id, m.tier, m.namespace
            FROM {memory}.memories m, question q
            WHERE m.tenant = %(tenant)s AND m.tier = '{tier}' AND {part whose} = w.user_id
              AND {part wanted}
            OFFSET 0
        ) m
        CROSS JOIN LATERAL ({part own_distance}) v
        WHERE (SELECT b.by FROM by b) = 'viewer' AND v.distance IS NOT NULL
        ORDER BY v.distance, m.id
        LIMIT %(pool)s
    )
)

-- name: recall
-- The candidates for a query over three tiers, each tier under a prefix of its own, with their
-- evidence: vector distance, BM25 (k1 1.2, b 0.75), BM25 of the five turns around, and BM25 of the
-- turn before. Words that name a speaker of the tenant are left out: they say who, not what.
-- Document frequencies and lengths are those of the scope at this moment. The question itself and
-- earlier askings of it are neither candidates nor evidence of an answer; they only support the
-- turns after them, where the answer is.
WITH RECURSIVE names AS (
    (SELECT m.speaker FROM {memory}.memories m
     WHERE m.tenant = %(tenant)s AND m.speaker IS NOT NULL ORDER BY m.speaker LIMIT 1)
    UNION ALL
    SELECT (SELECT m.speaker FROM {memory}.memories m
            WHERE m.tenant = %(tenant)s AND m.speaker > n.speaker ORDER BY m.speaker LIMIT 1)
    FROM names n WHERE n.speaker IS NOT NULL
), question AS MATERIALIZED (
    SELECT p.plain, plainto_tsquery(%(language)s::regconfig, %(text)s) AS words,
           CASE WHEN p.plain = '' THEN -1 ELSE length(%(text)s) + 100 END AS longest,
           ARRAY(SELECT r.role || ' ' || p.plain FROM unnest(%(roles)s::text[]) AS r (role))
               || p.plain AS forms
    FROM (SELECT {part plain_question} AS plain) p
), size AS MATERIALIZED (
    -- The last counts of a large tenant; a smaller one is counted now.
    SELECT coalesce((
        SELECT s.memories FROM {memory}.tenant_sizes s WHERE s.tenant = %(tenant)s
    ), (
        SELECT count(*)::float8 FROM (
            SELECT FROM {memory}.memories m WHERE m.tenant = %(tenant)s LIMIT %(exact_limit)s + 1
        ) few
    )) AS memories
), asked_words AS MATERIALIZED (
    -- The 32 rarest words, or more in a small tenant: of those that are not frequent, the longest.
    SELECT l.lexeme, ({lexeme})::tsquery AS word, f.memories
    FROM unnest(to_tsvector(%(language)s::regconfig, %(text)s)) AS l
    LEFT JOIN (
        SELECT unnest(s.words) AS lexeme, unnest(s.counts) AS memories
        FROM {memory}.tenant_sizes s WHERE s.tenant = %(tenant)s
    ) f ON f.lexeme = l.lexeme
    WHERE l.lexeme NOT IN (
        SELECT s.lexeme
        FROM (SELECT n.speaker FROM names n WHERE n.speaker IS NOT NULL LIMIT 100) n,
             unnest(to_tsvector(%(language)s::regconfig, n.speaker)) AS s
        WHERE lower(n.speaker) <> ALL (%(roles)s::text[])
    )
    ORDER BY f.memories NULLS FIRST, length(l.lexeme) DESC, l.lexeme
    LIMIT (SELECT greatest(32, 30000 / greatest(s.memories, 1)) FROM size s)
), words AS MATERIALIZED (
    -- In a large tenant, the rarest words find candidates: so many that the work is bounded. A word
    -- that is not among the frequent ones counts as in a hundredth of the memories, or in 100.
    SELECT a.lexeme, a.word, row_number() OVER (ORDER BY a.lexeme) AS n, c.likely,
           s.memories <= 700 OR sum(c.likely) OVER (ORDER BY c.likely, a.lexeme)
               <= greatest(200, least(700, 6000 / count(*) OVER ())) AS sought
    FROM asked_words a
    CROSS JOIN size s
    CROSS JOIN LATERAL (SELECT coalesce(a.memories, least(s.memories / 100, 100)) AS likely) c
), terms AS MATERIALIZED (
    -- If every word is frequent, all together find candidates.
    SELECT ({tenant_lexeme} || coalesce(
               string_agg(w.word::text, ' | ') FILTER (WHERE w.sought),
               string_agg(w.word::text, ' & ')
           ) || ')')::tsquery AS in_scope
    FROM words w
), hits AS MATERIALIZED (
    {legs recall_words}
), postings AS MATERIALIZED (
    -- ts_rank of one word is the sum of 1/i^2 over its occurrences, divided by pi^2/6.
    SELECT h.id, h.tier, h.namespace, h.session, h.turn, h.asks_again, w.n,
           length(h.lexemes) - 1 AS words,
           round(1 / (1.64493406685 * (1 - r.rank)) - 0.5) AS tf
    FROM hits h
    CROSS JOIN words w
    CROSS JOIN LATERAL (
        SELECT ts_rank(ARRAY[1, 1, 1, 1]::real[], h.lexemes, w.word)::float8 AS rank
    ) r
    WHERE r.rank > 0
), scope AS MATERIALIZED (
    SELECT s.memories, (SELECT avg(length(h.lexemes) - 1) FROM hits h)::float8 AS words
    FROM size s
), idf AS MATERIALIZED (
    SELECT w.n, w.lexeme, d.df,
           ln(1 + (greatest(s.memories, d.df) - d.df + 0.5) / (d.df + 0.5)) AS idf
    FROM words w
    CROSS JOIN scope s
    CROSS JOIN LATERAL (
        SELECT CASE WHEN w.sought THEN count(*) ELSE w.likely END AS df
        FROM postings p WHERE p.n = w.n AND NOT p.asks_again
    ) d
), own AS MATERIALIZED (
    SELECT p.id, p.tier, p.namespace, p.session, p.turn, p.asks_again,
           sum(f.idf * p.tf * 2.2 / (p.tf + 1.2 * (0.25 + 0.75 * p.words / s.words))) AS score,
           sum(f.idf * p.tf * 2.2 / (p.tf + 1.2)) AS plain
    FROM postings p
    JOIN idf f ON f.n = p.n
    CROSS JOIN scope s
    GROUP BY p.id, p.tier, p.namespace, p.session, p.turn, p.asks_again
), windows AS MATERIALIZED (
    SELECT c.tier, c.namespace, c.session, c.turn, sum(c.idf * c.tf * 2.2 / (c.tf + 1.2)) AS score
    FROM (
        SELECT p.tier, p.namespace, p.session, p.turn + o.by AS turn, f.idf, sum(p.tf) AS tf
        FROM postings p
        JOIN idf f ON f.n = p.n
        CROSS JOIN generate_series(-2, 2) AS o (by)
        WHERE p.turn IS NOT NULL AND (o.by > 0 OR NOT p.asks_again)
        GROUP BY p.tier, p.namespace, p.session, p.turn + o.by, f.n, f.idf
    ) c
    GROUP BY c.tier, c.namespace, c.session, c.turn
), big AS MATERIALIZED (
    -- True if a tier's prefix has too many vectors for exact search, and HNSW: by the last count,
    -- or counted now. And the most memories of a type that are searched.
    SELECT b.tier, b.big, CASE WHEN b.big THEN %(exact_limit)s ELSE %(exact_limit)s / 10 END AS most
    FROM (
        SELECT t.tier, t.tier::text = ANY (%(ann_tiers)s::text[]) AND coalesce((
            SELECT CASE WHEN EXISTS (
                       SELECT FROM unnest(s.tiers, s.crowded) AS n (tier, namespace)
                       WHERE n.tier = t.tier AND n.namespace >= t.low AND n.namespace < t.high
                   ) THEN true
                   WHEN s.memories <= %(exact_limit)s THEN false END
            FROM {memory}.tenant_sizes s WHERE s.tenant = %(tenant)s
        ), (
            SELECT count(*) FROM (
                SELECT FROM {memory}.vectors v
                WHERE v.tier = t.tier AND v.tenant = %(tenant)s
                  AND v.namespace >= t.low AND v.namespace < t.high
                LIMIT %(exact_limit)s + 1
            ) few
        ) > %(exact_limit)s) AS big
        FROM unnest(
            enum_range(NULL::{memory}.tier),
            ARRAY[%(short_term_low)s, %(working_low)s, %(long_term_low)s]::text[],
            ARRAY[%(short_term_high)s, %(working_high)s, %(long_term_high)s]::text[]
        ) AS t (tier, low, high)
    ) b
), viewers AS MATERIALIZED (
    -- The owner of visible memories: shared ones, and that user's.
    SELECT '' AS user_id UNION SELECT %(user_id)s::text
), near AS MATERIALIZED (
    SELECT * FROM (
    {legs recall_near}
    ) n ORDER BY n.distance, n.id LIMIT %(pool)s
), pool AS MATERIALIZED (
    SELECT p.id, p.tier, min(p.distance) AS distance
    FROM (
        SELECT n.id, n.tier, n.distance FROM near n
        UNION ALL
        (SELECT o.id, o.tier, NULL FROM own o WHERE NOT o.asks_again
         ORDER BY o.score DESC, o.id LIMIT %(pool)s)
        UNION ALL
        SELECT m.id, m.tier, NULL
        FROM (
            SELECT * FROM windows w
            ORDER BY w.score DESC, w.namespace, w.session, w.turn LIMIT %(pool)s
        ) w
        CROSS JOIN LATERAL (
            SELECT m.id, m.tier FROM {memory}.memories m, question q
            WHERE m.tenant = %(tenant)s AND m.namespace = w.namespace AND m.turn = w.turn
              AND m.tier = w.tier AND {part in_session} = w.session
              AND {part wanted}
            OFFSET 0  -- each by the index of turns, however many there seem to be
        ) m
        UNION ALL
        SELECT d.id, d.tier, NULL FROM ({legs recall_dated}) d
        {further}
    ) p
    GROUP BY p.id, p.tier
), found AS MATERIALIZED (
    SELECT m.*,
           coalesce(c.distance, (
               SELECT min(v.embedding {operator} %(query)s::{vector_type}) FROM {memory}.vectors v
               WHERE v.tier = m.tier AND v.tenant = %(tenant)s AND v.namespace = m.namespace
                 AND v.id = m.id
           )) AS distance
    FROM pool c
    CROSS JOIN LATERAL (
        SELECT * FROM {memory}.memories m
        WHERE m.tenant = %(tenant)s AND m.id = c.id AND m.tier = c.tier LIMIT 1
    ) m
    WHERE NOT {part told_here}
)
SELECT m.tenant, m.namespace, m.key, m.value, m.created_at, m.updated_at,
       m.tier::text, m.expires_at, m.ttl_minutes, m.id, m.distance,
       CASE WHEN t.talks THEN t.distance ELSE m.distance END AS distance_around,
       o.score AS own, CASE WHEN t.talks THEN w.score ELSE o.plain END AS around,
       CASE WHEN t.talks THEN b.score END AS before,
       CASE WHEN t.talks THEN t.words ELSE length(m.lexemes) - 1 END AS words_around,
       m.speaker, m.occurred_at,
       coalesce(u.access_count, 0), coalesce(u.success_count, 0), coalesce(u.failure_count, 0),
       u.last_accessed_at, coalesce(u.strength, 0), {part outdated}, {part replaces}
FROM found m
LEFT JOIN own o ON o.id = m.id
LEFT JOIN windows w ON w.tier = m.tier AND w.namespace = m.namespace
  AND w.session = {part in_session} AND w.turn = m.turn
LEFT JOIN own b ON b.tier = m.tier AND b.namespace = m.namespace
  AND b.session = {part in_session} AND b.turn = m.turn - 1
LEFT JOIN LATERAL (
    -- Memories stored in sequence support each other if they were said, or if the caller asks for
    -- that.
    SELECT sum(length(n.lexemes) - 1) AS words, {mean_distance} AS distance,
           m.speaker IS NOT NULL OR bool_or(n.asks) AS talks
    FROM (
        SELECT n.lexemes, m.speaker IS NULL AND {part content n} ~ '[?？؟]' AS asks, (
            SELECT min(v.embedding {operator} %(query)s::{vector_type}) FROM {memory}.vectors v
            WHERE v.tier = n.tier AND v.tenant = %(tenant)s AND v.namespace = n.namespace
              AND v.id = n.id
        ) AS distance
        FROM {memory}.memories n
        WHERE m.turn IS NOT NULL AND n.tenant = %(tenant)s AND n.namespace = m.namespace
          AND n.turn BETWEEN m.turn - 2 AND m.turn + 2 AND n.tier = m.tier
          AND {part in_session n} = {part in_session}
          AND (n.expires_at IS NULL OR n.expires_at > %(alive_at)s) AND {part visible n}
          AND {part seen n}
    ) n
) t ON true
LEFT JOIN LATERAL (
    SELECT * FROM {memory}.usage u WHERE u.tenant = %(tenant)s AND u.id = m.id LIMIT 1
) u ON true
-- A memory that only a window found counts where neighbours count.
WHERE t.talks OR w.score IS NULL OR o.score IS NOT NULL OR m.distance IS NOT NULL
UNION ALL
-- One more row, without a key, for facts about the whole scope.
SELECT %(tenant)s, NULL, NULL, jsonb_build_object(
           'memories', s.memories,
           'sought', (SELECT sum(f.idf) FROM idf f),
           'known', (SELECT sum(f.idf) FROM idf f WHERE f.df > 0),
           'speakers', (SELECT array_agg(n.speaker) FROM names n WHERE n.speaker IS NOT NULL),
           'names', ARRAY(
               SELECT a.name FROM unnest(%(names)s::text[]) AS a (name)
               WHERE NOT EXISTS (
                   SELECT FROM unnest(to_tsvector(%(language)s::regconfig, a.name)) AS l
                   JOIN idf f ON f.lexeme = l.lexeme
                   WHERE f.df = 0
               )
           )
       ), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, NULL, NULL, NULL
FROM scope s;

-- leg: recall_page
(
    SELECT m.*
    FROM {memory}.memories m
    WHERE m.tier = '{tier}' AND m.tenant = %(tenant)s
      AND m.namespace >= %({tier}_low)s AND m.namespace < %({tier}_high)s
      AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s) AND {part asked}
      AND NOT {part told_here} {filter}
    ORDER BY m.updated_at DESC, CASE WHEN m.session IS NOT NULL AND m.speaker IS NOT NULL THEN m.turn END
        DESC NULLS LAST, m.namespace, m.key
    LIMIT %(pool)s
)

-- part: of_recall
-- The columns of a recall for a memory m and its usage u, without evidence.
SELECT m.tenant, m.namespace, m.key, m.value, m.created_at, m.updated_at,
       m.tier::text, m.expires_at, m.ttl_minutes, m.id, NULL::float8 AS distance,
       NULL::float8, NULL::float8, NULL::float8, NULL::float8, NULL::bigint,
       m.speaker, m.occurred_at,
       coalesce(u.access_count, 0), coalesce(u.success_count, 0), coalesce(u.failure_count, 0),
       u.last_accessed_at, coalesce(u.strength, 0), {part outdated}, {part replaces}

-- name: recall_newest
-- The same for an empty query: newest first, the last turn before the one before it, without
-- evidence.
{part of_recall}
FROM ({legs recall_page}) m
LEFT JOIN LATERAL (
    SELECT * FROM {memory}.usage u WHERE u.tenant = %(tenant)s AND u.id = m.id LIMIT 1
) u ON true
ORDER BY m.updated_at DESC, CASE WHEN m.session IS NOT NULL AND m.speaker IS NOT NULL THEN m.turn END
        DESC NULLS LAST, m.namespace, m.key
LIMIT %(pool)s;

-- part: pins
-- The pinned memories of the tenant.
[owner: (
    SELECT * FROM {memory}.memories m WHERE m.tenant = %(tenant)s AND m.value @> '{"pinned": true}'
    ) | walled: (SELECT s.* FROM {memory}.of_pins() AS p (id) CROSS JOIN LATERAL (
        SELECT * FROM {memory}.memories s WHERE s.tenant = %(tenant)s AND s.id = p.id LIMIT 1
    ) s)]

-- name: pinned
-- Current pinned memories of a project or known everywhere in the tenant, of any session, oldest
-- first. The columns are those of recall.
{part of_recall}
FROM {part pins} m
LEFT JOIN LATERAL (
    SELECT * FROM {memory}.usage u WHERE u.tenant = %(tenant)s AND u.id = m.id LIMIT 1
) u ON true
WHERE (m.namespace >= %(working_low)s AND m.namespace < %(working_high)s
       OR m.tier = 'long_term' AND m.namespace >= %(long_term_low)s AND m.namespace < %(long_term_high)s)
  AND {part visible} AND {part seen} AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
ORDER BY m.created_at, m.id
LIMIT 200;

-- name: pin
-- Pin a memory, which then does not expire, or let it expire again from now on.
UPDATE {memory}.memories m
SET value = CASE WHEN %(pinned)s::boolean THEN m.value || '{"pinned": true}' ELSE m.value - 'pinned' END,
    expires_at = CASE WHEN %(pinned)s::boolean THEN NULL
                 ELSE %(now)s::timestamptz + m.ttl_minutes * interval '1 minute' END
WHERE m.tenant = %(tenant)s AND m.id = %(id)s AND m.value @> '{"pinned": true}' <> %(pinned)s::boolean
RETURNING m.id;

-- name: mark_reminding
-- Note that a reminder was set in the turn of a statement.
UPDATE {memory}.memories m
SET value = m.value || '{"reminder_set": true}'
WHERE m.tenant = %(tenant)s AND m.id = %(id)s
RETURNING m.id;

-- name: find
-- A memory by its key alone, anywhere in the tenant: short_term before working before long_term,
-- and the user's own before shared ones. The columns are those of recall.
{part of_recall}
FROM {memory}.memories m
LEFT JOIN LATERAL (
    SELECT * FROM {memory}.usage u WHERE u.tenant = %(tenant)s AND u.id = m.id LIMIT 1
) u ON true
WHERE m.tenant = %(tenant)s AND m.key = %(key)s
  AND m.tier = ANY (%(tiers)s::{memory}.tier[]) AND {part seen}
  AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
ORDER BY m.tier, m.user_id NULLS LAST, m.updated_at DESC, m.namespace;

-- part: handled
-- The keys of memories with one of these handles.
SELECT h.key FROM [owner: {memory}.memories h WHERE h.tenant = %(tenant)s
    AND {memory}.handle(h.tenant, h.namespace, h.key) = ANY (%(handles)s)
    | walled: {memory}.of_handles(%(handles)s) AS h (key)]

-- name: find_handle
-- The same for one handle, which few memories have, mostly one.
{part of_recall}
FROM {memory}.memories m
LEFT JOIN LATERAL (
    SELECT * FROM {memory}.usage u WHERE u.tenant = %(tenant)s AND u.id = m.id LIMIT 1
) u ON true
WHERE m.tenant = %(tenant)s AND m.key = ANY (ARRAY({part handled}))
  AND m.tier = ANY (%(tiers)s::{memory}.tier[]) AND {part seen}
  AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
  AND {memory}.handle(m.tenant, m.namespace, m.key) = ANY (%(handles)s)
ORDER BY m.tier, m.user_id NULLS LAST, m.updated_at DESC, m.namespace;

-- name: read_again
-- Current memories by namespace and key, in the given order. The columns are those of recall.
SELECT m.tenant, m.namespace, m.key, m.value, m.created_at, m.updated_at,
       m.tier::text, m.expires_at, m.ttl_minutes, m.id, NULL::float8 AS distance,
       NULL::float8, NULL::float8, NULL::float8, NULL::float8, NULL::bigint,
       m.speaker, m.occurred_at, 0::bigint, 0::bigint, 0::bigint, NULL::timestamptz, 0::float8,
       {part outdated}, {part replaces}
FROM unnest(%(namespaces)s::text[], %(keys)s::text[]) WITH ORDINALITY AS w (namespace, key, ord)
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.key = w.key AND m.namespace = w.namespace
      AND {part visible} AND {part seen} AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
    LIMIT 1
) m
WHERE {few}
ORDER BY w.ord;

-- name: session_keys
-- The keys of a session's memories of one type, of one project or of all.
SELECT m.namespace, m.key FROM {memory}.memories m
WHERE m.tenant = %(tenant)s AND m.session = %(session)s
  AND (%(project_id)s::text IS NULL OR m.value ->> 'project_id' = %(project_id)s::text) AND m.value ->> 'memory_type' = %(memory_type)s
  AND {part seen}
ORDER BY m.namespace, m.key;

-- name: type_stats
-- The memories of a tenant, by tier and type, without expired ones and those of other users.
SELECT m.tier::text, coalesce(m.value ->> 'memory_type', 'episodic'), count(*),
       coalesce(sum(u.access_count), 0)
FROM {memory}.memories m
LEFT JOIN {memory}.usage u ON u.tenant = m.tenant AND u.id = m.id
WHERE m.tenant = %(tenant)s AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
  AND {part seen}
GROUP BY 1, 2;

-- name: enter
-- The settings on which every statement relies. Behind a pooler they begin each transaction and end
-- with it, as the next one on that connection is another client's. A connection of our own gets
-- them once.
-- Every statement is static and written for one plan: to plan it for each call costs more than most
-- calls take, and a plan made while tables were empty must not last. To begin parallel workers or
-- to compile takes longer than any statement, but seems cheap to the planner, so both are off.
-- Names have the meaning of Postgres and pgvector, whatever the role's search path is. Times are
-- UTC. Every statement has a time-out. The audit log gets the actor. Then the tenant is named, as
-- in act_for.
SELECT set_config('plan_cache_mode', 'force_generic_plan', %(local)s::boolean),
       set_config('enable_seqscan', 'off', %(local)s::boolean),
       set_config('max_parallel_workers_per_gather', '0', %(local)s::boolean),
       set_config('jit', 'off', %(local)s::boolean),
       set_config('search_path', %(path)s::text, %(local)s::boolean),
       set_config('timezone', 'UTC', %(local)s::boolean),
       set_config('statement_timeout', %(timeout)s::text, %(local)s::boolean),
       set_config('langmem_tiers.actor', %(actor)s::text, %(local)s::boolean),
       set_config('role', coalesce(%(role)s::text, current_setting('role')), true),
       set_config('langmem_tiers.tenant', %(tenant)s::text, true);

-- name: act_for
-- For the rest of this transaction: the tenant whose rows are seen, and the role to take, if any.
SELECT set_config('role', coalesce(%(role)s::text, current_setting('role')), true),
       set_config('langmem_tiers.tenant', %(tenant)s::text, true);

-- name: limit_time
-- The time-out for each later statement of this transaction, in milliseconds.
SELECT set_config('statement_timeout', %(milliseconds)s, true);

-- name: no_hurry
-- No time-out for the rest of this transaction.
SELECT set_config('statement_timeout', '0', true);

-- name: list_namespaces
-- Namespaces that hold items, in the order of their labels. Each condition is a prefix or a suffix
-- of labels; '*' stands for any one label.
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
-- The memories of each tier, for one tenant or for all, without those that expired by `alive_at`.
-- Sizes on disk are of everything.
SELECT t.tier::text, alive.memories,
       (SELECT count(*) FROM {memory}.vectors v
        WHERE v.tier = t.tier AND (%(tenant)s::text IS NULL OR v.tenant = %(tenant)s::text))
       - (SELECT count(*) FROM {memory}.memories m
          JOIN {memory}.vectors v ON v.tenant = m.tenant AND v.id = m.id AND v.tier = m.tier
          WHERE m.tier = t.tier AND m.expires_at <= %(alive_at)s::timestamptz
            AND (%(tenant)s::text IS NULL OR m.tenant = %(tenant)s::text)),
       alive.tenants,
       (SELECT coalesce(sum(u.access_count), 0) FROM {memory}.memories m
        JOIN {memory}.usage u ON u.tenant = m.tenant AND u.id = m.id
        WHERE m.tier = t.tier AND (%(tenant)s::text IS NULL OR m.tenant = %(tenant)s::text)
          AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s::timestamptz)),
       alive.expiring,
       (SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = %(schema_prefix)s || t.tier::text AND c.relkind = 'r')
FROM unnest(enum_range(NULL::{memory}.tier)) AS t (tier)
CROSS JOIN LATERAL (
    SELECT count(*) AS memories, count(DISTINCT m.tenant) AS tenants,
           count(m.expires_at) AS expiring
    FROM {memory}.memories m
    WHERE m.tier = t.tier AND (%(tenant)s::text IS NULL OR m.tenant = %(tenant)s::text)
      AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s::timestamptz)
) AS alive;

-- name: sizes
-- Every table and index of the store with its size on disk. As it names a table of ours, it is an
-- error before setup.
SELECT n.nspname || '.' || c.relname, CASE c.relkind WHEN 'i' THEN 'index' ELSE 'table' END,
       CASE c.relkind WHEN 'r' THEN pg_table_size(c.oid) ELSE pg_relation_size(c.oid) END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ANY (%(schemas)s::text[]) AND c.relkind IN ('r', 'i')
  AND EXISTS (SELECT FROM {memory}.migrations)
ORDER BY 3 DESC, 1;

-- name: tenants_to_count
-- Tenants of more than 500 memories that grew or shrank by a fifth since their count; counts of
-- smaller ones are deleted.
WITH sized AS (
    SELECT m.tenant, count(*) AS memories FROM {memory}.memories m
    GROUP BY m.tenant HAVING count(*) > 500
), small AS (
    DELETE FROM {memory}.tenant_sizes s WHERE s.tenant NOT IN (SELECT z.tenant FROM sized z)
), counted AS (
    INSERT INTO {memory}.settings (name, value)
    SELECT 'counted', to_jsonb(coalesce(pg_sequence_last_value('{memory}.memory_ids'::regclass), 0))
    ON CONFLICT (name) DO UPDATE SET value = excluded.value
)
SELECT z.tenant FROM sized z
LEFT JOIN {memory}.tenant_sizes s ON s.tenant = z.tenant
WHERE s.tenant IS NULL OR z.memories NOT BETWEEN s.memories / 1.2 AND s.memories * 1.2
ORDER BY z.tenant;

-- name: count_tenant
-- Count a tenant's memories, its frequent words in about 5,000 of them or a 25th, and its crowded
-- namespaces.
WITH size AS (
    SELECT count(*) AS memories FROM {memory}.memories m WHERE m.tenant = %(tenant)s
), sample AS MATERIALIZED (
    SELECT m.lexemes FROM {memory}.memories m, size s
    WHERE m.tenant = %(tenant)s AND m.id % least(1 + s.memories / 5000, 25) = 0
), sampled AS (
    SELECT count(*)::float8 AS memories FROM sample
), frequent AS (
    SELECT l.lexeme, count(*) * s.memories / p.memories AS memories
    FROM size s, sampled p, sample m, unnest(m.lexemes) AS l
    GROUP BY l.lexeme, s.memories, p.memories
    HAVING count(*) * s.memories > least(0.02 * s.memories, 250) * p.memories
), crowded AS (
    SELECT v.tier, v.namespace FROM {memory}.vectors v WHERE v.tenant = %(tenant)s
    GROUP BY v.tier, v.namespace HAVING count(*) > %(exact_limit)s
)
INSERT INTO {memory}.tenant_sizes (tenant, memories, words, counts, crowded, tiers)
SELECT %(tenant)s, s.memories, f.words, f.counts, c.crowded, c.tiers
FROM size s
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(f.lexeme ORDER BY f.lexeme), '{}') AS words,
           coalesce(array_agg(f.memories ORDER BY f.lexeme), '{}') AS counts FROM frequent f
) f
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(c.namespace ORDER BY c.namespace, c.tier), '{}') AS crowded,
           coalesce(array_agg(c.tier ORDER BY c.namespace, c.tier), '{}') AS tiers FROM crowded c
) c
ON CONFLICT (tenant) DO UPDATE SET (memories, words, counts, crowded, tiers)
    = (excluded.memories, excluded.words, excluded.counts, excluded.crowded, excluded.tiers);

-- name: largest_tenants
-- The number of vectors of the largest tenant in each tier.
SELECT n.tier::text, max(n.vectors)
FROM (SELECT tier, tenant, count(*) AS vectors FROM {memory}.vectors GROUP BY tier, tenant) n
GROUP BY n.tier;

-- name: lock_setup
-- Lock setups, so that one at a time runs in this database.
SELECT pg_advisory_xact_lock(%(lock)s::bigint);

-- name: room
-- The role and database of a setup, and what is missing: the right to create schemas, the
-- extension, the schemas that do not exist, and those that another role owns.
SELECT quote_ident(current_user), quote_ident(current_database()),
       has_database_privilege(current_database(), 'CREATE'),
       EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'vector'),
       ARRAY(
           SELECT w.name FROM unnest(%(schemas)s::text[]) WITH ORDINALITY AS w (name, ord)
           WHERE NOT EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = w.name) ORDER BY w.ord
       ),
       ARRAY(
           SELECT n.nspname::text FROM pg_namespace n
           WHERE n.nspname = ANY (%(schemas)s::text[]) AND NOT pg_has_role(n.nspowner, 'USAGE')
           ORDER BY 1
       );

-- name: find_vectors
-- The schema of pgvector; the rest of the transaction has it in its search path.
SELECT quote_ident(n.nspname),
       set_config('search_path', format('pg_catalog, %I, pg_temp', n.nspname), true)
FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = 'vector';

-- name: has_migrations
-- True if setup has run; a role that may only use the tables can ask this.
SELECT to_regclass(%(migrations)s::text) IS NOT NULL;

-- name: applied_migrations
SELECT version, checksum FROM {memory}.migrations ORDER BY version;

-- name: record_migration
INSERT INTO {memory}.migrations (version, name, checksum, applied_at)
VALUES (%(version)s, %(name)s, %(checksum)s, %(now)s);

-- name: settings
-- The settings for which this database was set up.
SELECT name, value FROM {memory}.settings;

-- name: roles
-- Those of the roles that exist.
SELECT rolname::text FROM pg_roles WHERE rolname = ANY (%(names)s::text[]) ORDER BY 1;

-- name: change_setting
INSERT INTO {memory}.settings (name, value) VALUES (%(name)s, %(value)s::jsonb)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: any_vector
SELECT EXISTS (SELECT FROM {memory}.vectors);

-- name: any_lexeme
SELECT EXISTS (SELECT FROM {memory}.memories WHERE lexemes IS NOT NULL);

-- name: state
-- The shape of this database's vectors, the tiers with a usable HNSW index, those with one of a
-- broken-off build, the language of the words, and the bytes of vectors of each tier.
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
       ),
       (SELECT value FROM {memory}.settings WHERE name = 'language'),
       (SELECT jsonb_object_agg(n.nspname, pg_relation_size(c.oid))
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relname = 'vectors' AND n.nspname = ANY (%(schemas)s::text[])),
       -- The memories stored since tenants were counted, and before.
       coalesce(pg_sequence_last_value('{memory}.memory_ids'::regclass), 0),
       (SELECT value FROM {memory}.settings WHERE name = 'counted');

-- name: purge_usage
-- Delete rows about memories that other processes removed meanwhile: counters, exposures, lineage.
-- Archived memories keep their exposures, for their restore.
WITH counters AS (
    DELETE FROM {memory}.usage u
    WHERE NOT EXISTS (
        SELECT FROM {memory}.memories m WHERE m.tenant = u.tenant AND m.id = u.id
    ) AND NOT EXISTS (
        SELECT FROM {memory}.archived a WHERE a.tenant = u.tenant AND a.id = u.id
    )
), exposures AS (
    DELETE FROM {memory}.exposures e
    WHERE NOT EXISTS (
        SELECT FROM {memory}.memories m WHERE m.tenant = e.tenant AND m.id = e.id
    ) AND NOT EXISTS (
        SELECT FROM {memory}.archived a WHERE a.tenant = e.tenant AND a.id = e.id
    )
), edges AS (
    DELETE FROM {memory}.lineage l
    WHERE NOT EXISTS (
        SELECT FROM {memory}.memories m WHERE m.tenant = l.tenant AND m.id = l.id
    ) OR NOT EXISTS (
        SELECT FROM {memory}.memories m WHERE m.tenant = l.tenant AND m.id = l.source
    )
    RETURNING l.tenant, l.id, l.source, l.derived
)
UPDATE {memory}.memories m SET state = NULL, state_at = NULL FROM edges l
WHERE m.tenant = l.tenant AND m.id = l.source AND m.state = 'consolidated' AND NOT l.derived
  AND NOT EXISTS (
      SELECT FROM {memory}.memories s WHERE s.tenant = l.tenant AND s.id = l.id
  );

-- name: has_documents
-- True if setup has made the views of the tiers as documents.
SELECT to_regclass(%(view)s::text) IS NOT NULL;
