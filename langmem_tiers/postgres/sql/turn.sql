-- The statements of short-term state, of sessions and agents. The rules of queries.sql hold here
-- too. No state is visible from the moment on that it expires.

-- name: states
-- The end of a conversation and an agent's states of these kinds, in no order. A limit of 0 returns
-- no conversation, and no kinds return no states. A reader does not see messages with another
-- agent.
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
-- Add to a conversation, and delete all messages but the last so many. A message with a known id
-- replaces the old one in its place. Rows that another transaction deletes are skipped.
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
-- Delete a conversation and return the number of its messages.
WITH gone AS (
    DELETE FROM {memory}.states s
    WHERE s.tenant = %(tenant)s AND s.owner = %(session)s AND s.kind = 'message'
    RETURNING s.at
)
SELECT count(*) FROM gone g WHERE g.at > %(since)s::timestamptz;

-- name: lock_states
-- Make writers of states of a kind wait for each other, so that each sees the last one's writes.
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
-- Set one state of an agent.
INSERT INTO {memory}.states (tenant, owner, kind, name, value, at, expires_at)
VALUES (%(tenant)s, %(agent)s, %(kind)s, %(name)s, %(value)s::text::jsonb, %(now)s::timestamptz,
        %(expires_at)s::timestamptz)
ON CONFLICT (tenant, owner, kind, name) DO UPDATE
SET value = excluded.value, at = excluded.at, expires_at = excluded.expires_at;

-- name: close_state
-- Delete one state of an agent and return it.
DELETE FROM {memory}.states s
WHERE s.tenant = %(tenant)s AND s.owner = %(agent)s AND s.kind = %(kind)s AND s.name = %(name)s
RETURNING s.value;

-- name: sweep_states
-- Delete a batch of expired states. Returns the count.
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
