-- The statements of a turn's trace. The rules of queries.sql hold here too. The events of a turn
-- are named `turn/<turn>/<number>`, so that they lie side by side in the primary key.

-- name: record_turn
-- Write the events of a turn that has not ended, in order; events already written stay. An event
-- about a memory names its key and namespace, unless the memory is gone. The end of a turn locks it
-- first, so that it ends once.
INSERT INTO {memory}.events (tenant, event, kind, id, at, detail)
SELECT %(tenant)s, w.event, w.kind, m.id, w.at, w.detail::jsonb
FROM unnest(%(events)s::text[], %(kinds)s::text[], %(namespaces)s::text[], %(keys)s::text[],
            %(at)s::timestamptz[], %(details)s::text[])
         WITH ORDINALITY AS w (event, kind, namespace, key, at, detail, ord)
LEFT JOIN LATERAL (
    SELECT m.id FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.namespace = w.namespace AND m.key = w.key LIMIT 1
) m ON true
WHERE {few} AND NOT EXISTS (
    SELECT FROM {memory}.events e
    WHERE e.tenant = %(tenant)s AND e.event >= %(low)s AND e.event < %(high)s
      AND e.kind IN ('committed', 'abandoned')
)
ORDER BY w.ord
ON CONFLICT (tenant, event) DO NOTHING;

-- name: turn_ended
-- The end of a turn, if it has ended.
SELECT e.kind, e.detail FROM {memory}.events e
WHERE e.tenant = %(tenant)s AND e.event >= %(low)s AND e.event < %(high)s
  AND e.kind IN ('committed', 'abandoned')
ORDER BY e.event DESC LIMIT 1;

-- name: turn_events
-- The events of a turn, oldest first.
SELECT e.kind, e.at, e.detail, m.namespace, m.key
FROM {memory}.events e
LEFT JOIN LATERAL (
    SELECT m.namespace, m.key FROM {memory}.memories m
    WHERE m.tenant = e.tenant AND m.id = e.id LIMIT 1
) m ON true
WHERE e.tenant = %(tenant)s AND e.event >= %(low)s AND e.event < %(high)s
ORDER BY e.event;

-- part: told
-- The record of how a turn ended; none of another user's turn.
e.event, e.at, e.kind, e.detail ->> 'turn', e.detail ->> 'began', e.detail -> 'reasons' ->> 0,
        e.detail ->> 'project_id', e.detail ->> 'session_id', e.detail -> 'summary'

-- part: of_turns
FROM {memory}.events e
    WHERE e.tenant = %(tenant)s AND e.kind IN ('committed', 'abandoned')
      AND NOT (e.detail ? 'user_id' AND e.detail ->> 'user_id' IS DISTINCT FROM %(user_id)s::text)

-- name: turns_ended
-- The ends of turns, latest first: of a tenant or of a session, of one project or of all. Only one
-- of the three parts runs; each reads the end of an index.
[owner: SELECT * FROM (
    (SELECT {part told} {part of_turns} AND %(session)s::text IS NULL AND %(project)s::text IS NULL
     ORDER BY e.at DESC, e.event DESC LIMIT %(limit)s)
    UNION ALL
    (SELECT {part told} {part of_turns} AND %(session)s::text IS NULL AND e.detail ? 'project_id'
       AND e.detail ->> 'project_id' = %(project)s::text
     ORDER BY e.at DESC, e.event DESC LIMIT %(limit)s)
    UNION ALL
    (SELECT {part told} {part of_turns} AND e.detail ? 'session_id'
       AND e.detail ->> 'session_id' = %(session)s::text
       AND (%(project)s::text IS NULL OR e.detail ->> 'project_id' = %(project)s::text)
     ORDER BY e.at DESC, e.event DESC LIMIT %(limit)s)
) AS t
ORDER BY t.at DESC, t.event DESC | walled: SELECT {part told}
FROM {memory}.ended_turns(
    %(project)s::text, %(session)s::text, %(user_id)s::text, %(limit)s
) e
WHERE e.tenant = %(tenant)s ORDER BY e.at DESC, e.event DESC];

-- name: sweep_turns
-- Delete a batch of events of turns before then, oldest first, the end of each turn last. Returns
-- the count.
WITH old AS MATERIALIZED (
    SELECT e.tenant, e.event
    FROM {memory}.events e
    WHERE e.event >= 'turn/' AND e.event < 'turn0' AND e.at < %(before)s::timestamptz
    ORDER BY e.at
    LIMIT 1000
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM {memory}.events e USING old o
    WHERE e.tenant = o.tenant AND e.event = o.event
    RETURNING e.event
)
SELECT count(*) FROM gone;
