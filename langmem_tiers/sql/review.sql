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

-- name: waiting_reviews
-- What of a tenant awaits a review, or what of that has one of these keys, the longest first.
SELECT m.id, m.namespace, m.key, m.value, m.state, m.updated_at
FROM {memory}.events e
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m WHERE m.tenant = e.tenant AND m.id = e.id LIMIT 1
) m
WHERE e.tenant = %(tenant)s AND e.event >= 'unreviewed/' AND e.event < 'unreviewed0'
  AND m.updated_at = e.at AND (m.state IS NULL OR m.state = 'quarantined')
  AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
  AND (%(keys)s::text[] IS NULL OR m.key = ANY (%(keys)s::text[]))
ORDER BY e.number
LIMIT %(limit)s;

-- name: forget_reviews
-- What awaited a review and was changed or deleted since awaits none.
DELETE FROM {memory}.events e
WHERE e.tenant = %(tenant)s AND e.event >= 'unreviewed/' AND e.event < 'unreviewed0'
  AND NOT EXISTS (
      SELECT FROM {memory}.memories m
      WHERE m.tenant = e.tenant AND m.id = e.id AND m.updated_at = e.at
  );

-- name: note_unanswered
-- Say of a memory that still awaits a review why it has none.
UPDATE {memory}.events e SET detail = %(detail)s::jsonb
WHERE e.tenant = %(tenant)s AND e.event = 'unreviewed/' || %(id)s::bigint
  AND e.at = %(version)s::timestamptz;

-- name: conclude_review
-- Keep what models said of a memory, and do what follows from it, if it still is what they read and
-- nobody said so before. Answers the event, or nothing.
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
    SET state = %(becomes)s::text,
        state_at = CASE WHEN %(becomes)s::text IS NOT NULL THEN %(now)s::timestamptz END
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
    WHERE %(becomes)s::text IS NOT NULL OR k.state IS NOT NULL
)
SELECT event FROM said;
