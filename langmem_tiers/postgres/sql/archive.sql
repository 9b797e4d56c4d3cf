-- The statements of archival: memories that move to a file, and their restore. The rules of
-- queries.sql hold here too.

-- part: archivable
-- Old, rarely read and unimportant memories; one without a given importance counts as unimportant.
-- A memory that was created, changed or read lately is not old, and one that served more runs well
-- than badly is worth keeping. Memories that are not current stay, as questions about the past read
-- them. Those with a lineage stay, as deletions, rollbacks and retractions follow it. So do
-- memories that a session may still clear, and open intentions.
FROM {memory}.memories m
LEFT JOIN LATERAL (
    SELECT u.access_count, u.success_count, u.failure_count, u.last_accessed_at FROM {memory}.usage u
    WHERE u.tenant = %(tenant)s AND u.id = m.id LIMIT 1
) u ON true
CROSS JOIN LATERAL (
    SELECT greatest(m.created_at, m.updated_at, u.last_accessed_at) AS touched_at,
           coalesce(u.access_count, 0) AS reads,
           CASE jsonb_typeof(m.value -> 'importance')
               WHEN 'number' THEN (m.value ->> 'importance')::numeric
               ELSE %(untold)s::float8::numeric END AS importance
) w
WHERE m.tenant = %(tenant)s
  AND greatest(m.created_at, m.updated_at) < %(before)s::timestamptz
  AND (u.last_accessed_at IS NULL OR u.last_accessed_at < %(before)s::timestamptz)
  AND coalesce(u.success_count, 0) <= coalesce(u.failure_count, 0)
  AND m.state IS NULL
  AND (m.expires_at IS NULL OR m.expires_at > %(now)s::timestamptz)
  AND (%(agent_id)s::text IS NULL OR m.value ->> 'agent_id' = %(agent_id)s::text)
  AND w.reads < %(accesses)s
  AND w.importance < %(importance)s::float8::numeric
  AND coalesce(m.value ->> 'memory_type', 'episodic') <> 'working'
  AND NOT m.value @> '{"pinned": true}'
  AND NOT EXISTS (SELECT FROM {memory}.lineage l WHERE l.tenant = %(tenant)s AND l.id = m.id)
  AND NOT EXISTS (SELECT FROM {memory}.lineage l WHERE l.tenant = %(tenant)s AND l.source = m.id)
  AND NOT EXISTS (
      SELECT FROM {memory}.intentions i
      WHERE i.tenant = %(tenant)s AND i.id = m.id AND i.status IN ('pending', 'delivered')
  )

-- name: archive_candidates
-- The memories that may be archived, between two ids.
SELECT m.id, m.namespace, m.key, m.updated_at
{part archivable}
  AND m.id > %(after)s AND m.id <= %(until)s
ORDER BY m.id
LIMIT %(limit)s;

-- name: archive_least
-- The least valuable memories that may be archived, up to a share of the current ones, by id: the
-- least important, then the least read, then those left alone longest. Memories archived at this
-- moment count as current and as taken, so that a cycle that continues takes no more than one that
-- was not interrupted.
SELECT l.id
FROM (
    SELECT m.id
    {part archivable}
    ORDER BY w.importance, w.reads, w.touched_at, m.id
    LIMIT (
        SELECT greatest(floor(%(share)s::float8::numeric * (c.current + t.taken)) - t.taken, 0)
        FROM (
            SELECT count(*) AS current FROM {memory}.memories m
            WHERE m.tenant = %(tenant)s AND m.state IS NULL
              AND (m.expires_at IS NULL OR m.expires_at > %(now)s::timestamptz)
        ) c, (
            SELECT coalesce(sum(a.memories), 0) AS taken FROM {memory}.archives a
            WHERE a.tenant = %(tenant)s AND a.archived_at = %(now)s::timestamptz
        ) t
    )::bigint
) l
WHERE l.id > %(after)s
ORDER BY l.id
LIMIT %(limit)s;

-- name: archive_waiting
-- The number of memories that may still be archived.
SELECT count(*)
{part archivable};

-- name: archive_rows
-- Whole memories with their vectors and counters. Times are microseconds since 1970; the ends of
-- bigint stand for the infinities, as they do in Postgres itself. Vectors have the binary form of
-- 32-bit floats, which holds half precision exactly.
SELECT m.id, m.tier::text, m.namespace, m.key, m.value::text, m.lexemes::text, m.ttl_minutes,
       m.session, m.turn, m.speaker, m.signature, m.tool, m.state,
       u.access_count, u.success_count, u.failure_count, u.strength,
       ARRAY(
           SELECT CASE t.at WHEN 'infinity' THEN 9223372036854775807
                            WHEN '-infinity' THEN (-9223372036854775808)::bigint
                            ELSE (extract(epoch FROM t.at) * 1000000)::bigint END
           FROM unnest(ARRAY[
               m.created_at, m.updated_at, m.expires_at, m.occurred_at, m.valid_from, m.valid_to,
               m.state_at, u.last_accessed_at, u.strength_at
           ]) WITH ORDINALITY AS t (at, n)
           ORDER BY t.n
       ) AS times,
       ARRAY(
           SELECT v.field FROM {memory}.vectors v
           WHERE v.tenant = %(tenant)s AND v.namespace = m.namespace AND v.id = m.id
             AND v.tier = m.tier
           ORDER BY v.field
       ) AS fields,
       ARRAY(
           SELECT vector_send(v.embedding::vector) FROM {memory}.vectors v
           WHERE v.tenant = %(tenant)s AND v.namespace = m.namespace AND v.id = m.id
             AND v.tier = m.tier
           ORDER BY v.field
       ) AS embeddings
FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS w (id, ord)
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m WHERE m.tenant = %(tenant)s AND m.id = w.id LIMIT 1
) m
LEFT JOIN LATERAL (
    SELECT * FROM {memory}.usage u WHERE u.tenant = %(tenant)s AND u.id = m.id LIMIT 1
) u ON true
WHERE {few}
ORDER BY m.id;

-- name: archived_among
-- Those of these ids that are archived already, each with its file.
SELECT a.id, a.archive
FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS w (id, ord)
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.archived a WHERE a.tenant = %(tenant)s AND a.id = w.id LIMIT 1
) a
WHERE {few}
ORDER BY a.id;

-- name: archive_lock
-- Lock these memories and their counters until the end. Those that have a lineage or an intention
-- by now are neither locked nor returned.
SELECT m.id
FROM (SELECT w.id FROM unnest(%(ids)s::bigint[]) AS w (id) ORDER BY w.id) w
CROSS JOIN LATERAL (
    SELECT m.id FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.id = w.id
      AND NOT EXISTS (SELECT FROM {memory}.lineage l WHERE l.tenant = m.tenant AND l.id = m.id)
      AND NOT EXISTS (
          SELECT FROM {memory}.lineage l WHERE l.tenant = m.tenant AND l.source = m.id
      )
      AND NOT EXISTS (
          SELECT FROM {memory}.intentions i
          WHERE i.tenant = m.tenant AND i.id = m.id AND i.status IN ('pending', 'delivered')
      )
    LIMIT 1 FOR UPDATE OF m
) m
LEFT JOIN LATERAL (
    SELECT u.id FROM {memory}.usage u
    WHERE u.tenant = %(tenant)s AND u.id = m.id LIMIT 1 FOR UPDATE
) u ON true;

-- name: record_archive
-- Delete memories that are safe in a file, with their vectors and counters. Their exposures and
-- events stay, for their restore.
WITH file AS (
    INSERT INTO {memory}.archives (tenant, archive, url, checksum, memories, archived_at)
    VALUES (%(tenant)s, %(archive)s, %(url)s, %(checksum)s, cardinality(%(ids)s::bigint[]),
            %(now)s::timestamptz)
    ON CONFLICT (tenant, archive) DO UPDATE
    SET url = excluded.url, checksum = excluded.checksum, memories = excluded.memories,
        archived_at = excluded.archived_at
), gone AS (
    DELETE FROM {memory}.memories m
    USING unnest(%(ids)s::bigint[]) WITH ORDINALITY AS w (id, ord)
    WHERE {few} AND m.tenant = %(tenant)s AND m.id = w.id
    RETURNING m.tenant, m.id, m.tier, m.namespace, m.key, m.user_id
), vectors AS (
    DELETE FROM {memory}.vectors v USING gone g
    WHERE v.tenant = g.tenant AND v.tier = g.tier AND v.namespace = g.namespace AND v.id = g.id
), counters AS (
    DELETE FROM {memory}.usage u USING gone g WHERE u.tenant = g.tenant AND u.id = g.id
)
INSERT INTO {memory}.archived (tenant, id, tier, namespace, key, archive, user_id)
SELECT g.tenant, g.id, g.tier, g.namespace, g.key, %(archive)s, g.user_id FROM gone g;

-- name: archives
-- The files of a tenant, oldest first, with the number of memories that exist in each alone. Files
-- of one archival are named by the number of their first memory, which may have one digit more.
SELECT a.archive, a.url, a.checksum, a.memories, a.archived_at,
       (SELECT count(*) FROM {memory}.archived x
        WHERE x.tenant = a.tenant AND x.archive = a.archive) AS remaining
FROM {memory}.archives a
WHERE a.tenant = %(tenant)s
ORDER BY a.archived_at, length(a.archive), a.archive;

-- name: archived_in
-- The memories that exist in a file alone.
SELECT a.id, a.tier::text, a.namespace, a.key FROM {memory}.archived a
WHERE a.tenant = %(tenant)s AND a.archive = %(archive)s
ORDER BY a.id;

-- name: archived_as
-- The place in the tenant to which an archived memory of that key would return, and its file,
-- without those of another user.
SELECT a.tenant, a.tier::text, a.namespace, a.key, a.archive FROM {memory}.archived a
WHERE a.tenant = %(tenant)s AND a.key = %(key)s AND {part seen a}
ORDER BY a.tier, a.user_id NULLS LAST, a.namespace;

-- name: restore_archived
-- Restore memories as they were, if they are still archived. Memories that have expired meanwhile
-- stay dead. If a memory of the same key is alive, or a newer one is archived, that one counts and
-- this one waits. Evidence that runs earned for it meanwhile is added to its counters. Returns each
-- id, its fate, and whether evidence was added.
WITH given AS MATERIALIZED (
    SELECT w.*, t.at
    FROM unnest(%(ids)s::bigint[], %(tiers)s::text[], %(namespaces)s::text[], %(keys)s::text[],
                %(values)s::text[], %(lexemes)s::text[], %(ttls)s::float8[], %(sessions)s::text[],
                %(turns)s::int[], %(speakers)s::text[], %(signatures)s::text[], %(tools)s::text[],
                %(states)s::text[], %(accesses)s::int[], %(successes)s::int[],
                %(failures)s::int[], %(strengths)s::float8[])
             WITH ORDINALITY AS w
             (id, tier, namespace, key, value, lexemes, ttl, session, turn, speaker, signature,
              tool, state, accesses, successes, failures, strength, ord)
    CROSS JOIN LATERAL (
        -- A day at a time, as an interval of microseconds alone is exact for some 285 years.
        SELECT array_agg(
            CASE u.us WHEN 9223372036854775807 THEN 'infinity'::timestamptz
                      WHEN -9223372036854775808 THEN '-infinity'::timestamptz
                      ELSE (timestamp 'epoch' + make_interval(days => (u.us / 86400000000)::int)
                            + mod(u.us, 86400000000) * interval '1 microsecond')
                           AT TIME ZONE 'UTC' END
            ORDER BY u.n) AS at
        FROM unnest((%(times)s::bigint[])[9 * w.ord - 8 : 9 * w.ord])
            WITH ORDINALITY AS u (us, n)
    ) t
    WHERE {few}
), judged AS MATERIALIZED (
    SELECT g.*, a.user_id,
           CASE WHEN g.at[3] <= %(now)s::timestamptz THEN 'expired'
                WHEN EXISTS (
                    SELECT FROM {memory}.memories m
                    WHERE m.tenant = %(tenant)s AND m.key = g.key AND m.namespace = g.namespace
                ) OR EXISTS (
                    SELECT FROM {memory}.archived n
                    WHERE n.tenant = %(tenant)s AND n.key = g.key AND n.namespace = g.namespace
                      AND n.id > g.id
                ) THEN 'occupied'
                ELSE 'restored' END AS verdict,
           EXISTS (
               SELECT FROM {memory}.usage u WHERE u.tenant = %(tenant)s AND u.id = g.id
           ) AS earned
    FROM given g
    CROSS JOIN LATERAL (
        SELECT a.id, a.user_id FROM {memory}.archived a
        WHERE a.tenant = %(tenant)s AND a.id = g.id AND (a.archive || '') = %(archive)s
        LIMIT 1 FOR UPDATE
    ) a
), memories AS (
    INSERT INTO {memory}.memories
        (tenant, tier, id, namespace, key, value, lexemes, created_at, updated_at, expires_at,
         ttl_minutes, session, turn, speaker, occurred_at, state, signature, tool, valid_from,
         valid_to, state_at, user_id)
    SELECT %(tenant)s, j.tier::{memory}.tier, j.id, j.namespace, j.key, j.value::jsonb,
           j.lexemes::tsvector, j.at[1], j.at[2], j.at[3], j.ttl, j.session, j.turn, j.speaker,
           j.at[4], j.state, j.signature, j.tool, j.at[5], j.at[6], j.at[7],
           j.user_id
    FROM judged j WHERE j.verdict = 'restored'
), vectors AS (
    INSERT INTO {memory}.vectors (tenant, tier, namespace, id, field, embedding)
    SELECT %(tenant)s, j.tier::{memory}.tier, j.namespace, j.id, v.field, v.embedding::vector
    FROM unnest(%(owners)s::bigint[], %(fields)s::text[], %(embeddings)s::text[])
        AS v (id, field, embedding)
    JOIN judged j ON j.id = v.id AND j.verdict = 'restored'
), counters AS (
    INSERT INTO {memory}.usage AS u
        (tenant, id, access_count, success_count, failure_count, last_accessed_at, strength,
         strength_at)
    SELECT %(tenant)s, j.id, j.accesses, j.successes, j.failures, j.at[8], j.strength, j.at[9]
    FROM judged j WHERE j.verdict = 'restored' AND j.accesses IS NOT NULL
    ORDER BY j.id
    {part added_up}
), unlisted AS (
    DELETE FROM {memory}.archived a USING judged j
    WHERE a.tenant = %(tenant)s AND a.id = j.id AND j.verdict <> 'occupied'
)
SELECT j.id, j.verdict, j.earned FROM judged j ORDER BY j.id;
