-- The statements of short-term state: what is going on in a session, and with an agent. The rules
-- of queries.sql hold here too. No state is seen from the moment on that it expires.

-- name: states
-- The end of a conversation and an agent's states of these kinds, in no order. With a limit of 0
-- there is no conversation, without kinds there are no states. A reader reads what was said with no
-- other agent.
(
    SELECT s.kind, s.name, s.value, s.at, s.number
    FROM {memory}.states s
    WHERE s.tenant = %(tenant)s AND s.owner = %(session)s AND s.kind = 'message'
      AND s.at > %(since)s::timestamptz
      AND coalesce(s.value ->> 'agent_id' = %(reader)s::text, true)
    ORDER BY s.at DESC, s.number DESC
    LIMIT %(limit)s::int
)
UNION ALL
SELECT s.kind, s.name, s.value, s.at, s.number
FROM unnest(%(kinds)s::text[]) AS k (kind)
CROSS JOIN LATERAL (
    SELECT s.kind, s.name, s.value, s.at, s.number
    FROM {memory}.states s
    WHERE s.tenant = %(tenant)s AND s.owner = %(agent)s AND s.kind = k.kind
      AND (s.expires_at IS NULL OR s.expires_at > %(now)s::timestamptz)
    OFFSET 0  -- kind by kind: else Postgres 16 reads all that the agent has
) s;

-- name: add_message
-- Add to a conversation, and remove what more than so many messages came after. A message said
-- again under its id is replaced in its place. Who else removes the same is not waited for.
WITH last AS MATERIALIZED (
    SELECT s.at, s.number
    FROM {memory}.states s
    WHERE s.tenant = %(tenant)s AND s.owner = %(session)s AND s.kind = 'message'
    ORDER BY s.at DESC, s.number DESC
    OFFSET %(most)s::int - 1 LIMIT 1
), old AS MATERIALIZED (
    SELECT o.name
    FROM last l
    CROSS JOIN LATERAL (
        SELECT s.name
        FROM {memory}.states s
        WHERE s.tenant = %(tenant)s AND s.owner = %(session)s AND s.kind = 'message'
          AND (s.at, s.number) <= (l.at, l.number) AND s.name <> %(name)s
        ORDER BY s.at, s.number
        LIMIT 100
        FOR UPDATE SKIP LOCKED
    ) o
), gone AS (
    DELETE FROM {memory}.states s USING old o
    WHERE s.tenant = %(tenant)s AND s.owner = %(session)s AND s.kind = 'message'
      AND s.name = o.name
)
INSERT INTO {memory}.states AS s (tenant, owner, kind, name, value, at, expires_at)
VALUES (%(tenant)s, %(session)s, 'message', %(name)s, %(value)s::text::jsonb,
        %(now)s::timestamptz, %(expires_at)s::timestamptz)
ON CONFLICT (tenant, owner, kind, name) DO UPDATE
SET value = excluded.value,
    at = CASE WHEN s.expires_at > excluded.at THEN s.at ELSE excluded.at END,
    expires_at = CASE WHEN s.expires_at > excluded.at THEN s.expires_at ELSE excluded.expires_at END
RETURNING s.at;

-- name: clear_messages
-- Remove a conversation; how many messages it had.
WITH gone AS (
    DELETE FROM {memory}.states s
    WHERE s.tenant = %(tenant)s AND s.owner = %(session)s AND s.kind = 'message'
    RETURNING s.at
)
SELECT count(*) FROM gone g WHERE g.at > %(since)s::timestamptz;

-- name: lock_states
-- Who changes states of a kind waits for whoever else does, and sees what that one wrote.
SELECT pg_advisory_xact_lock(
    hashtextextended(%(kind)s::text || ' ' || %(agent)s::text, hashtext(%(tenant)s::text))
);

-- name: one_state
-- One state of an agent.
SELECT s.value
FROM {memory}.states s
WHERE s.tenant = %(tenant)s AND s.owner = %(agent)s AND s.kind = %(kind)s AND s.name = %(name)s
  AND (s.expires_at IS NULL OR s.expires_at > %(now)s::timestamptz);

-- name: put_state
-- One state of an agent as it is from now on.
INSERT INTO {memory}.states (tenant, owner, kind, name, value, at, expires_at)
VALUES (%(tenant)s, %(agent)s, %(kind)s, %(name)s, %(value)s::text::jsonb, %(now)s::timestamptz,
        %(expires_at)s::timestamptz)
ON CONFLICT (tenant, owner, kind, name) DO UPDATE
SET value = excluded.value, at = excluded.at, expires_at = excluded.expires_at;

-- name: close_state
-- Remove one state of an agent, and answer what it was.
DELETE FROM {memory}.states s
WHERE s.tenant = %(tenant)s AND s.owner = %(agent)s AND s.kind = %(kind)s AND s.name = %(name)s
RETURNING s.value;

-- name: sweep_states
-- Remove a batch of what has expired. Answers the count.
WITH expired AS MATERIALIZED (
    SELECT s.tenant, s.owner, s.kind, s.name
    FROM {memory}.states s
    WHERE s.expires_at <= %(now)s::timestamptz
    ORDER BY s.expires_at
    LIMIT 1000
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM {memory}.states s USING expired e
    WHERE s.tenant = e.tenant AND s.owner = e.owner AND s.kind = e.kind AND s.name = e.name
    RETURNING s.name
)
SELECT count(*) FROM gone;
