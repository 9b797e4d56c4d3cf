-- The statements of prospective memory: intentions are stored, raised, put off and closed. The
-- rules of queries.sql hold here too.

-- part: in_sight
-- The memory of an intention, if a recall in the context would see it, for the same user. A memory
-- that lives on in another is still intended; a superseded or retracted one is not.
CROSS JOIN LATERAL (
    SELECT m.tier, m.namespace, m.key, m.value
    FROM {memory}.memories m
    JOIN unnest(%(tiers)s::{memory}.tier[], %(lows)s::text[], %(highs)s::text[])
        AS s (tier, low, high) ON s.tier = m.tier
    WHERE m.tenant = %(tenant)s AND m.id = i.id
      AND m.namespace >= s.low AND m.namespace < s.high AND {part seen}
      AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s::timestamptz)
      AND (m.state IS NULL OR m.state = 'consolidated')
    LIMIT 1
) m

-- part: due
-- Intentions that may be raised now, whatever their triggers. The conditions of rows of earlier
-- releases must be done; newer intentions have none.
i.status = 'pending' AND i.due_at <= %(now)s::timestamptz
AND (i.leased_until IS NULL OR i.leased_until <= %(now)s::timestamptz)
AND (i.expires_at IS NULL OR i.expires_at > %(now)s::timestamptz)
AND NOT EXISTS (
    SELECT FROM unnest(i.needs) AS n (id)
    JOIN {memory}.intentions d ON d.tenant = %(tenant)s AND d.id = n.id
    WHERE d.status <> 'done'
)

-- part: standing
-- The status of an intention at a moment: an expired lease or intention needs no write.
CASE WHEN i.status IN ('pending', 'delivered') AND i.expires_at <= %(now)s::timestamptz
     THEN 'expired'
     WHEN i.status = 'pending' AND i.leased_until > %(now)s::timestamptz THEN 'leased'
     ELSE i.status END

-- name: intend
-- The intention of a memory that was just put. With the same trigger it stays as it is, so that a
-- repeated call raises nothing twice; with another one it starts afresh. A quarantined put
-- that was not written, as the memory under its key is trusted more, does not touch that memory's
-- intention.
INSERT INTO {memory}.intentions AS i
    (tenant, id, priority, kind, trigger, due_at, words, name, expires_at, needs, status)
SELECT %(tenant)s, m.id, %(priority)s::smallint, %(kind)s, %(trigger)s::jsonb,
       %(due_at)s::timestamptz, %(words)s::text[], %(name)s, %(expires_at)s::timestamptz,
       ARRAY[]::bigint[], 'pending'
FROM {memory}.memories m
WHERE m.tenant = %(tenant)s AND m.namespace = %(namespace)s AND m.key = %(key)s
  AND (m.state = 'quarantined' OR NOT %(held)s)
LIMIT 1
ON CONFLICT (tenant, id) DO UPDATE
SET priority = excluded.priority, expires_at = excluded.expires_at, needs = excluded.needs,
    kind = excluded.kind, trigger = excluded.trigger, words = excluded.words, name = excluded.name,
    due_at = CASE WHEN i.trigger = excluded.trigger THEN i.due_at ELSE excluded.due_at END,
    status = CASE WHEN i.trigger <> excluded.trigger THEN excluded.status
                  WHEN i.status <> 'expired' THEN i.status
                  WHEN i.delivered_at IS NOT NULL THEN 'delivered'
                  ELSE excluded.status END,
    raised = i.raised AND i.trigger = excluded.trigger,
    holder = CASE WHEN i.trigger = excluded.trigger THEN i.holder END,
    fence = i.fence + (i.trigger <> excluded.trigger)::int,
    next_at = CASE WHEN i.trigger = excluded.trigger THEN i.next_at END,
    leased_until = CASE WHEN i.trigger = excluded.trigger THEN i.leased_until END,
    delivered_at = CASE WHEN i.trigger = excluded.trigger THEN i.delivered_at END,
    closed_at = CASE WHEN i.trigger = excluded.trigger THEN i.closed_at END;

-- name: due_intentions
-- A page of intentions that may be raised now, after a place in the order: those of a time, those
-- raised before, and those found by a word of their cue, their tool or their predicate. Each
-- priority and each name is a range of one index, read in order and no further than the page.
-- `narrowed` asks for triggers alone, whether they were raised before or not.
SELECT d.id, d.priority, d.due_at, d.trigger, d.raised, d.expires_at
FROM unnest(ARRAY[0, 1, 2]::smallint[]) AS p (priority)
CROSS JOIN LATERAL (
    SELECT CASE WHEN p.priority = %(after_priority)s::smallint
                THEN %(after_due)s::timestamptz ELSE '-infinity' END AS due_at,
           CASE WHEN p.priority = %(after_priority)s::smallint
                THEN %(after_id)s::bigint ELSE 0 END AS id
) a
CROSS JOIN LATERAL (
    (
        SELECT i.id, i.priority, i.due_at, i.trigger, i.raised, i.expires_at
        FROM {memory}.intentions i
        {part in_sight}
        WHERE %(timed)s AND i.tenant = %(tenant)s AND i.priority = p.priority
          AND (i.due_at, i.id) > (a.due_at, a.id) AND {part due}
          AND (i.kind = 'time' OR i.raised) AND (i.kind = 'time' OR NOT %(narrowed)s)
        ORDER BY i.due_at, i.id
        LIMIT %(limit)s
    ) UNION ALL (
        SELECT f.*
        FROM unnest(%(kinds)s::text[], %(names)s::text[]) AS n (kind, name)
        CROSS JOIN LATERAL (
            SELECT i.id, i.priority, i.due_at, i.trigger, i.raised, i.expires_at
            FROM {memory}.intentions i
            {part in_sight}
            WHERE i.tenant = %(tenant)s AND i.kind = n.kind AND i.name = n.name
              AND i.priority = p.priority AND (i.due_at, i.id) > (a.due_at, a.id) AND {part due}
              AND (NOT i.raised OR %(narrowed)s)
              AND (i.kind <> 'cue' OR i.words <@ %(words)s::text[])
            ORDER BY i.due_at, i.id
            LIMIT %(limit)s
        ) f
    )
) d
WHERE p.priority >= %(after_priority)s::smallint
ORDER BY d.priority, d.due_at, d.id
LIMIT %(limit)s;

-- name: raise_intentions
-- Raise those of these that are still due: lease them until a moment, or deliver them at once
-- without a lease. They are locked in the order of ids, and those that another caller raised
-- meanwhile are left out. A recurring one is due at its next time from then on; with a lease, once
-- it is acknowledged.
WITH held AS MATERIALIZED (
    SELECT i.id, i.due_at, a.next_at, m.tier, m.namespace, m.key, m.value
    FROM {memory}.intentions i
    JOIN unnest(%(ids)s::bigint[], %(nexts)s::timestamptz[]) AS a (id, next_at) ON a.id = i.id
    {part in_sight}
    WHERE i.tenant = %(tenant)s AND i.id = ANY (%(ids)s::bigint[]) AND {part due}
    ORDER BY i.id
    FOR UPDATE OF i
)
UPDATE {memory}.intentions i
SET raised = h.next_at IS NULL OR %(leased_until)s::timestamptz IS NOT NULL,
    fence = i.fence + 1, holder = %(holder)s,
    leased_until = %(leased_until)s::timestamptz,
    status = CASE WHEN %(leased_until)s::timestamptz IS NULL AND h.next_at IS NULL
                  THEN 'delivered' ELSE 'pending' END,
    due_at = CASE WHEN %(leased_until)s::timestamptz IS NULL
                  THEN coalesce(h.next_at, i.due_at) ELSE i.due_at END,
    next_at = CASE WHEN %(leased_until)s::timestamptz IS NOT NULL THEN h.next_at END,
    delivered_at = CASE WHEN %(leased_until)s::timestamptz IS NULL THEN %(now)s::timestamptz END
FROM held h
WHERE i.tenant = %(tenant)s AND i.id = h.id
RETURNING i.id, i.priority, h.due_at, i.fence, i.trigger, i.leased_until, h.tier::text,
          i.tenant, h.namespace, h.key, h.value;

-- name: raised_for
-- The intentions that a run was given before and still holds; a recurring one until it is due
-- again.
SELECT i.id, i.priority, i.due_at, i.fence, i.trigger, i.leased_until, m.tier::text,
       i.tenant, m.namespace, m.key, m.value
FROM {memory}.intentions i
{part in_sight}
WHERE i.tenant = %(tenant)s AND i.holder = %(holder)s
  AND (i.expires_at IS NULL OR i.expires_at > %(now)s::timestamptz)
  AND (i.status = 'delivered'
       OR i.status = 'pending' AND i.leased_until > %(now)s::timestamptz
       OR i.status = 'pending' AND i.delivered_at IS NOT NULL AND i.due_at > %(now)s::timestamptz);

-- name: acknowledge
-- Turn leases into deliveries, each if nobody else has raised it since, and if it is of no other
-- project or user. An expired one counts as delivered then. They are locked in the order of ids;
-- delivered ones are neither locked nor written. Returns how many are delivered now.
WITH known AS MATERIALIZED (
    SELECT i.id, i.fence, i.delivered_at
    FROM unnest(%(ids)s::bigint[], %(fences)s::bigint[]) AS t (id, fence)
    CROSS JOIN LATERAL (
        SELECT i.id, i.fence, i.status, i.delivered_at FROM {memory}.intentions i
        WHERE i.tenant = %(tenant)s AND i.id = t.id LIMIT 1
    ) i
    WHERE i.fence = t.fence AND i.status IN ('pending', 'expired', 'delivered')
      AND NOT coalesce((  -- one by one, by its key: no join that reads the whole tenant
          SELECT true FROM {memory}.memories m
          WHERE m.tenant = %(tenant)s AND m.id = t.id AND {part elsewhere} LIMIT 1
      ), false)
), held AS MATERIALIZED (
    SELECT i.id
    FROM {memory}.intentions i
    JOIN known k ON k.id = i.id AND k.fence = i.fence
    WHERE i.tenant = %(tenant)s
      AND i.id = ANY (ARRAY(SELECT k.id FROM known k WHERE k.delivered_at IS NULL))
      AND i.status IN ('pending', 'expired', 'delivered')
    ORDER BY i.id
    FOR UPDATE OF i
), told AS (
    UPDATE {memory}.intentions i
    SET status = CASE WHEN i.expires_at <= %(now)s::timestamptz THEN 'expired'
                      WHEN i.next_at IS NOT NULL THEN 'pending' ELSE 'delivered' END,
        due_at = coalesce(i.next_at, i.due_at), raised = i.next_at IS NULL, next_at = NULL,
        leased_until = NULL,
        delivered_at = coalesce(i.delivered_at, %(now)s::timestamptz)
    FROM held h
    WHERE i.tenant = %(tenant)s AND i.id = h.id
    RETURNING i.id
)
SELECT (SELECT count(*) FROM known k WHERE k.delivered_at IS NOT NULL)
     + (SELECT count(*) FROM told);

-- name: snooze
-- Put off until a moment; an intention that was raised is raised again then, and its lease is void.
UPDATE {memory}.intentions i
SET status = 'pending', due_at = %(until)s::timestamptz, fence = i.fence + 1, holder = NULL,
    leased_until = NULL, delivered_at = NULL, next_at = NULL
WHERE i.tenant = %(tenant)s AND i.id = %(id)s AND i.status IN ('pending', 'delivered')
  AND (i.expires_at IS NULL
       OR i.expires_at > greatest(%(until)s::timestamptz, %(now)s::timestamptz))
RETURNING i.id;

-- name: close_intention
-- Close an intention as done or cancelled; an expired one can still be done.
UPDATE {memory}.intentions i
SET status = %(status)s, closed_at = %(now)s::timestamptz, leased_until = NULL
WHERE i.tenant = %(tenant)s AND i.id = %(id)s AND i.status IN ('pending', 'expired', 'delivered')
RETURNING i.id;

-- name: intention
-- One intention.
SELECT {part standing}, i.expires_at, i.trigger, i.due_at FROM {memory}.intentions i
WHERE i.tenant = %(tenant)s AND i.id = %(id)s;

-- name: intentions
-- Intentions of these statuses, in the order in which they are raised; `stored` are the possible
-- statuses of their rows, each a range of one index for each priority.
SELECT f.*
FROM unnest(%(stored)s::text[]) AS s (status)
CROSS JOIN unnest(ARRAY[0, 1, 2]::smallint[]) AS p (priority)
CROSS JOIN LATERAL (
    SELECT m.tier::text, m.namespace, m.key, m.value, i.id, i.priority, i.trigger, i.due_at,
           {part standing}, i.expires_at, i.delivered_at, i.closed_at
    FROM {memory}.intentions i
    {part in_sight}
    WHERE i.tenant = %(tenant)s AND i.status = s.status AND i.priority = p.priority
      AND (i.status NOT IN ('pending', 'delivered') OR {part standing} = ANY (%(statuses)s::text[]))
    ORDER BY i.due_at, i.id
    LIMIT %(limit)s
) f
ORDER BY f.priority, f.due_at, f.id
LIMIT %(limit)s;

-- name: open_topics
-- True if any intention waits for its topic.
SELECT EXISTS (
    SELECT FROM {memory}.intentions i
    WHERE i.tenant = %(tenant)s AND i.kind = 'topic' AND i.status = 'pending' AND NOT i.raised
);

-- name: topics_near
-- Intentions with a topic that may be raised now, with the distance of their memories to the
-- question, nearest first.
SELECT i.trigger ->> 'about', d.distance
FROM {memory}.intentions i
{part in_sight}
CROSS JOIN LATERAL (
    SELECT min(v.embedding {operator} %(query)s::{vector_type}) AS distance
    FROM {memory}.vectors v
    WHERE v.tier = m.tier AND v.tenant = %(tenant)s AND v.namespace = m.namespace AND v.id = i.id
) d
WHERE i.tenant = %(tenant)s AND i.kind = 'topic' AND NOT i.raised AND {part due}
ORDER BY d.distance, i.id
LIMIT %(limit)s;

-- name: expire_intentions
-- Mark a batch of intentions that expired before they were closed, raised or not, so that later
-- reads skip them. They count as expired before that too: a sweep changes no visible status.
-- Returns the count.
WITH expired AS MATERIALIZED (
    SELECT i.tenant, i.id
    FROM {memory}.intentions i
    WHERE i.status IN ('pending', 'delivered') AND i.expires_at <= %(now)s::timestamptz
      AND (i.leased_until IS NULL OR i.leased_until <= %(now)s::timestamptz)
    ORDER BY i.expires_at
    LIMIT 1000
    FOR UPDATE SKIP LOCKED
), marked AS (
    UPDATE {memory}.intentions i SET status = 'expired' FROM expired e
    WHERE i.tenant = e.tenant AND i.id = e.id
    RETURNING i.id
)
SELECT count(*) FROM marked;

-- name: retire_intentions
-- Delete a batch of intentions that were closed, or had expired, before a moment. Their memories
-- stay, and take the life of their tier. The condition of an open intention stays, unless it is
-- done; rows that another transaction locks are left to the next sweep. Returns the count.
WITH over AS MATERIALIZED (
    SELECT i.tenant, i.id, m.tier
    FROM {memory}.intentions i
    LEFT JOIN LATERAL (
        SELECT m.id, m.tier FROM {memory}.memories m
        WHERE m.tenant = i.tenant AND m.id = i.id LIMIT 1 FOR UPDATE SKIP LOCKED
    ) m ON true
    WHERE coalesce(i.closed_at, i.expires_at) <= %(before)s::timestamptz
      AND (i.status = 'done' OR NOT EXISTS (
          SELECT FROM {memory}.intentions d
          WHERE d.tenant = i.tenant AND d.needs @> ARRAY[i.id] AND cardinality(d.needs) > 0
            AND d.status IN ('pending', 'delivered')
      ))
      AND (m.id IS NOT NULL OR NOT EXISTS (
          SELECT FROM {memory}.memories a WHERE a.tenant = i.tenant AND a.id = i.id
      ))
    ORDER BY coalesce(i.closed_at, i.expires_at)
    LIMIT 200
    FOR UPDATE OF i SKIP LOCKED
), retired AS (
    DELETE FROM {memory}.intentions i USING over o WHERE i.tenant = o.tenant AND i.id = o.id
    RETURNING i.id
), lives AS (
    UPDATE {memory}.memories m
    SET ttl_minutes = t.minutes,
        expires_at = %(now)s::timestamptz + t.minutes * interval '1 minute'
    FROM over o
    JOIN unnest(%(tiers)s::{memory}.tier[], %(tier_ttls)s::float8[]) AS t (tier, minutes)
      ON t.tier = o.tier
    WHERE m.tenant = o.tenant AND m.tier = o.tier AND m.id = o.id AND m.ttl_minutes IS NULL
      AND t.minutes IS NOT NULL
)
SELECT count(*) FROM retired;
