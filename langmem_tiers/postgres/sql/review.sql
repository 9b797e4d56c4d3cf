-- The statements of reviews by models that come after the storing. The rules of queries.sql hold here
-- too. What awaits one has an event `unreviewed/<id>`, so that all of a tenant lie side by side in the
-- primary key; its `at` is the version of the memory that awaits it.

-- name: await_review
-- Say of memories that were just put that models are to review them. One that awaits a review
-- already awaits it in its new words.
INSERT INTO {memory}.events (tenant, event, kind, id, at, detail)
SELECT %(tenant)s, 'unreviewed/' || m.id, 'unreviewed', m.id, m.updated_at, %(detail)s::jsonb
FROM unnest(%(namespaces)s::text[], %(keys)s::text[])
         WITH ORDINALITY AS w (namespace, key, ord)
CROSS JOIN LATERAL (
    SELECT m.id, m.updated_at FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.namespace = w.namespace AND m.key = w.key LIMIT 1
) m
WHERE {few}
ORDER BY w.ord
ON CONFLICT (tenant, event) DO UPDATE
SET at = excluded.at, number = excluded.number, detail = excluded.detail;

-- part: reviewable
-- What is reviewed still: it is current or held, or others have taken its place since.
(m.state IS NULL OR m.state IN ('quarantined', 'consolidated', 'superseded', 'suspect'))

-- name: waiting_reviews
-- What of a tenant awaits a review, the longest first, but for what is another user's.
SELECT m.id, m.namespace, m.key, m.value, m.state, m.updated_at
FROM {memory}.events e
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m WHERE m.tenant = e.tenant AND m.id = e.id LIMIT 1
) m
WHERE e.tenant = %(tenant)s AND e.event >= 'unreviewed/' AND e.event < 'unreviewed0'
  AND m.updated_at = e.at AND {part reviewable} AND {part seen}
  AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
ORDER BY e.number
LIMIT %(limit)s;

-- name: waiting_reviews_of
-- What of a tenant has one of these keys and awaits a review, the longest first, but for the same.
SELECT m.id, m.namespace, m.key, m.value, m.state, m.updated_at
FROM unnest(%(keys)s::text[]) WITH ORDINALITY AS w (key, ord)
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.key = w.key AND {part reviewable} AND {part seen}
      AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
    OFFSET 0
) m
CROSS JOIN LATERAL (
    SELECT e.number FROM {memory}.events e
    WHERE e.tenant = %(tenant)s AND e.event = 'unreviewed/' || m.id AND e.at = m.updated_at
    LIMIT 1
) e
WHERE {few}
ORDER BY e.number
LIMIT %(limit)s;

-- name: awaiting_reviews
-- Which of these memories await a review.
SELECT m.id
FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS w (id, ord)
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m WHERE m.tenant = %(tenant)s AND m.id = w.id LIMIT 1
) m
CROSS JOIN LATERAL (
    SELECT FROM {memory}.events e
    WHERE e.tenant = %(tenant)s AND e.event = 'unreviewed/' || m.id AND e.at = m.updated_at LIMIT 1
) e
WHERE {few};

-- name: forget_reviews
-- What awaited a review and was changed, deleted or retracted since awaits none.
DELETE FROM {memory}.events e
WHERE e.tenant = %(tenant)s AND e.event >= 'unreviewed/' AND e.event < 'unreviewed0'
  AND NOT EXISTS (
      SELECT FROM {memory}.memories m
      WHERE m.tenant = e.tenant AND m.id = e.id AND m.updated_at = e.at AND {part reviewable}
  );

-- name: note_unanswered
-- Say of a memory that still awaits a review why it has none.
UPDATE {memory}.events e SET detail = %(detail)s::jsonb
WHERE e.tenant = %(tenant)s AND e.event = 'unreviewed/' || %(id)s::bigint
  AND e.at = %(version)s::timestamptz;

-- name: conclude_review
-- Keep what models said of a memory, and do what follows from it, if it still is what they read and
-- nobody said so before. Answers the event, or nothing. How what is let go stands is said by `doubt`,
-- which follows.
WITH awaited AS (
    DELETE FROM {memory}.events e
    WHERE e.tenant = %(tenant)s AND e.event = 'unreviewed/' || %(id)s::bigint
      AND e.at = %(version)s::timestamptz
    RETURNING e.id
), meant AS MATERIALIZED (
    SELECT m.id, m.state
    FROM awaited a
    CROSS JOIN LATERAL (
        SELECT * FROM {memory}.memories m WHERE m.tenant = %(tenant)s AND m.id = a.id LIMIT 1
    ) m
    WHERE m.updated_at = %(version)s::timestamptz
      AND m.state IS NOT DISTINCT FROM %(state)s::text
), marked AS (
    UPDATE {memory}.memories m
    SET state = coalesce(%(becomes)s::text, 'suspect'), state_at = %(now)s::timestamptz
    FROM meant k
    WHERE m.tenant = %(tenant)s AND m.id = k.id AND k.state IS DISTINCT FROM %(becomes)s::text
    RETURNING m.id
), ended AS (
    UPDATE {memory}.events e SET undone_at = %(now)s::timestamptz
    FROM meant k
    WHERE e.tenant = %(tenant)s AND e.id = k.id AND e.kind = 'quarantined'
      AND e.undone_at IS NULL
), said AS (
    INSERT INTO {memory}.events (tenant, event, kind, id, at, detail)
    SELECT %(tenant)s, %(event)s, 'reviewed', k.id, %(now)s::timestamptz, %(detail)s::jsonb
    FROM meant k
    RETURNING event
), moved AS (
    INSERT INTO {memory}.events (tenant, event, kind, id, at, detail)
    SELECT %(tenant)s, %(move)s, CASE WHEN %(becomes)s::text IS NULL THEN 'released'
                                      ELSE 'quarantined' END,
           k.id, %(now)s::timestamptz, %(moved)s::jsonb
    FROM meant k
    WHERE 'quarantined' IN (%(becomes)s::text, k.state)
)
SELECT event FROM said;

-- name: hold_below
-- Hold what came of a memory that a review has quarantined, by whatever way, each with an event.
-- None of it awaits models any more: somebody has to look at it.
WITH RECURSIVE below AS (
    SELECT e.id FROM {memory}.events e
    WHERE e.tenant = %(tenant)s AND e.event = %(move)s AND e.kind = 'quarantined'
    UNION
    SELECT l.id
    FROM below b
    CROSS JOIN LATERAL (
        SELECT l.id FROM {memory}.lineage l
        WHERE l.tenant = %(tenant)s AND l.source = b.id OFFSET 0
    ) l
), held AS MATERIALIZED (
    SELECT m.id, m.user_id, {part trust} AS trust
    FROM below b
    CROSS JOIN LATERAL (
        SELECT * FROM {memory}.memories m WHERE m.tenant = %(tenant)s AND m.id = b.id LIMIT 1
    ) m
    WHERE m.state IS DISTINCT FROM 'quarantined' AND {part reviewable}
), marked AS (
    UPDATE {memory}.memories m SET state = 'quarantined', state_at = %(now)s::timestamptz
    WHERE m.tenant = %(tenant)s AND m.id = ANY (ARRAY(SELECT h.id FROM held h))
), awaited AS (
    DELETE FROM {memory}.events e
    WHERE e.tenant = %(tenant)s
      AND e.event = ANY (ARRAY(SELECT 'unreviewed/' || h.id FROM held h))
)
INSERT INTO {memory}.events (tenant, event, kind, id, at, detail)
SELECT %(tenant)s, %(move)s || '/' || h.id, 'quarantined', h.id, %(now)s::timestamptz,
       jsonb_build_object('trust', h.trust, 'reasons', jsonb_build_array(
           'derived: it came from ' || CASE WHEN h.user_id IS NULL AND s.user_id IS NOT NULL
               THEN 'what is a user''s own' ELSE %(key)s::text END || ', which is quarantined'))
FROM held h
CROSS JOIN LATERAL (
    SELECT m.user_id FROM {memory}.events e
    JOIN {memory}.memories m ON m.tenant = e.tenant AND m.id = e.id
    WHERE e.tenant = %(tenant)s AND e.event = %(move)s LIMIT 1
) s
ORDER BY h.id;
