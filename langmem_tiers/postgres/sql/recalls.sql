-- The statements of recorded recalls. The rules of queries.sql hold here too.

-- name: times_forgotten
-- The number of forgettings of the tenant.
SELECT count(*) FROM {memory}.forgettings f WHERE f.tenant = %(tenant)s;

-- name: share_recalls
-- A forgetting waits until no recall is being recorded, and no recall is recorded during a
-- forgetting: recalls do not wait for it.
SELECT set_config('langmem_tiers.records',
    pg_try_advisory_xact_lock_shared(hashtextextended(%(tenant)s::text, 26))::text, true);

-- name: hold_recalls
-- No recall is recorded until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtextextended(%(tenant)s::text, 26));

-- name: record_recall
-- Record a recall, behind share_recalls, unless something was forgotten since it read. A crash may
-- lose it, and a second call changes nothing. Returns a row if it was recorded.
INSERT INTO {memory}.recalls
    (tenant, turn, recall, root, user_id, project, at, expires_at, ids, asked, seen, answered, by)
SELECT %(tenant)s, %(turn)s, %(recall)s, %(root)s, %(user_id)s, %(project)s,
       %(now)s::timestamptz, %(expires_at)s::timestamptz, %(ids)s::bigint[], %(asked)s::jsonb,
       %(seen)s::bytea, %(answered)s::jsonb, %(by)s::jsonb
WHERE current_setting('langmem_tiers.records') = 'true' AND %(forgotten)s::bigint = (
    SELECT count(*) FROM {memory}.forgettings f WHERE f.tenant = %(tenant)s
)
ON CONFLICT (tenant, turn, recall) DO UPDATE SET at = excluded.at
RETURNING set_config('synchronous_commit', 'off', true);

-- name: recorded
-- The visible recalls of a turn, of a run, or of any attempt of one, in order; without a project,
-- those of all projects.
SELECT r.turn, r.at, r.asked, r.seen, r.answered, r.by
FROM (
    SELECT * FROM {memory}.recalls r WHERE r.tenant = %(tenant)s AND r.turn = %(turn)s
    UNION ALL
    SELECT * FROM {memory}.recalls r
    WHERE r.tenant = %(tenant)s AND r.root = %(turn)s AND r.turn <> %(turn)s
) r
WHERE {part seen r} AND (%(project)s::text IS NULL OR r.project = %(project)s::text)
ORDER BY r.number;

-- name: recalls_page
-- The recorded recalls of a tenant, a page after a given one.
SELECT r.turn, r.recall, r.user_id, r.ids, r.asked, r.seen, r.answered, r.root, r.project
FROM {memory}.recalls r
WHERE r.tenant = %(tenant)s AND (r.turn, r.recall) > (%(turn)s::text, %(recall)s::text)
ORDER BY r.turn, r.recall
LIMIT %(limit)s;

-- name: forget_recalls
-- Delete recorded recalls. Returns the count.
WITH gone AS (
    DELETE FROM {memory}.recalls r
    USING unnest(%(turns)s::text[], %(recalls)s::text[]) WITH ORDINALITY AS w (turn, recall, ord)
    WHERE {few} AND r.tenant = %(tenant)s AND r.turn = w.turn AND r.recall = w.recall
    RETURNING 1
)
SELECT count(*) FROM gone;

-- name: sweep_recalls
-- Delete a batch of recalls whose time is over, oldest first. Returns the count.
WITH old AS MATERIALIZED (
    SELECT r.tenant, r.turn, r.recall FROM {memory}.recalls r
    WHERE r.expires_at <= %(now)s::timestamptz
    ORDER BY r.expires_at
    LIMIT 1000
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM {memory}.recalls r USING old o
    WHERE r.tenant = o.tenant AND r.turn = o.turn AND r.recall = o.recall
    RETURNING 1
)
SELECT count(*) FROM gone;
