-- The statements of learning: exposures and outcomes of runs, the lessons of a failure, and
-- promotion with its way back. The rules of queries.sql hold here too.

-- name: expose
-- Record the memories shown to a run, in its order. A crash may lose this, together with the run,
-- and a second call changes nothing. Rows go in by id, so that two recalls of a run never deadlock.
INSERT INTO {memory}.exposures
    (tenant, run, id, root, project, session, position, held_out, exposed_at, user_id)
SELECT m.tenant, %(run)s, m.id, %(root)s, %(project)s, %(session)s, w.ord, w.held_out,
       %(now)s::timestamptz, %(user_id)s
FROM unnest(%(namespaces)s::text[], %(keys)s::text[], %(held_out)s::boolean[])
         WITH ORDINALITY AS w (namespace, key, held_out, ord)
CROSS JOIN LATERAL (
    SELECT m.tenant, m.id FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.namespace = w.namespace AND m.key = w.key LIMIT 1
) m
WHERE {few}
ORDER BY m.id
ON CONFLICT (tenant, run, id) DO NOTHING
RETURNING set_config('synchronous_commit', 'off', true);

-- name: lock_run
-- Make callers who record outcomes of a run wait for each other, so that each sees the others'
-- credits.
SELECT pg_advisory_xact_lock(hashtextextended(%(run)s::text, hashtext(%(tenant)s::text)));

-- part: attempts
-- The exposures of a run of this project or of one of its attempts, and exposures of this project's
-- memories to any run of that name; without a project, all of them. The run is the user's or
-- nobody's; without a user, anybody's.
attempts AS MATERIALIZED (
    SELECT a.*
    FROM (
        SELECT e.* FROM {memory}.exposures e WHERE e.tenant = %(tenant)s AND e.run = %(run)s
        UNION ALL
        SELECT e.* FROM {memory}.exposures e
        WHERE e.tenant = %(tenant)s AND e.root = %(run)s AND e.run <> %(run)s
    ) a
    WHERE (%(project)s::text IS NULL OR a.project = %(project)s::text OR EXISTS (
        SELECT FROM {memory}.memories m
        WHERE m.tenant = %(tenant)s AND m.id = a.id
          AND m.namespace >= %(project_low)s AND m.namespace < %(project_high)s
    )) AND (%(user_id)s::text IS NULL OR {part seen a})
)

-- part: ranked
-- Of several attempts that were shown the same memory one counts.
ranked AS MATERIALIZED (
    SELECT o.run, o.id, row_number() OVER () AS ord,
           row_number() OVER (PARTITION BY o.id ORDER BY o.held_out, o.run) = 1
           AND NOT EXISTS (
               SELECT FROM attempts a
               WHERE a.id = o.id AND a.settled_by = %(run)s AND a.succeeded IS NOT NULL
           ) AS counts
    FROM open o
)

-- part: settled
-- Each exposure gets the run's outcome, but only the one that counts gets a result. If it is known,
-- the exposure also gets whether the memory was used.
UPDATE {memory}.exposures e
SET succeeded = CASE WHEN w.counts THEN %(succeeded)s::boolean END,
    settled_at = %(now)s::timestamptz, settled_by = %(run)s,
    used = CASE WHEN NOT e.held_out THEN e.id <> ALL (%(unused)s::bigint[]) END
FROM ranked w
WHERE {few} AND e.tenant = %(tenant)s AND e.run = w.run AND e.id = w.id
RETURNING e.id, e.held_out, w.counts, e.used

-- part: credited
-- Outcomes count, except those of memories that were held out or not used.
credited AS (
    INSERT INTO {memory}.usage AS u (tenant, id, success_count, failure_count)
    SELECT %(tenant)s, s.id, %(succeeded)s::boolean::int, 1 - %(succeeded)s::boolean::int
    FROM settled s
    WHERE s.counts AND NOT s.held_out AND s.used IS NOT FALSE
    ORDER BY s.id
    ON CONFLICT (tenant, id) DO UPDATE
    SET success_count = u.success_count + excluded.success_count,
        failure_count = u.failure_count + excluded.failure_count
)

-- name: settle
-- Record the outcome of a run or of an attempt: each memory shown to it and not settled yet is
-- credited once. Of several attempts that were shown the same memory one counts, and the others
-- keep no result, so that counters always equal the exposures that have one.
WITH {part attempts}, open AS MATERIALIZED (
    SELECT e.run, e.id, e.held_out
    FROM (SELECT a.run, a.id FROM attempts a WHERE a.settled_at IS NULL ORDER BY a.run, a.id) a
    CROSS JOIN LATERAL (
        SELECT e.* FROM {memory}.exposures e
        WHERE e.tenant = %(tenant)s AND e.run = a.run AND e.id = a.id AND e.settled_at IS NULL
        LIMIT 1 FOR UPDATE
    ) e
), {part ranked}, settled AS (
    {part settled}
), {part credited}
SELECT count(*) FILTER (WHERE s.counts AND NOT s.held_out AND s.used IS NOT FALSE),
       count(*) FILTER (WHERE s.counts AND s.held_out),
       count(*) FILTER (WHERE s.counts AND s.used IS FALSE)
FROM settled s;

-- name: shown_to_run
-- The exposures of a run that are not settled yet, with the texts of the memories.
WITH {part attempts}
SELECT DISTINCT m.id, m.value
FROM attempts a
JOIN {memory}.memories m ON m.tenant = %(tenant)s AND m.id = a.id
WHERE a.settled_at IS NULL AND NOT a.held_out;

-- name: shown_given
-- The same of the given memories.
SELECT DISTINCT m.id, m.value
FROM unnest(%(namespaces)s::text[], %(keys)s::text[]) WITH ORDINALITY AS w (namespace, key, ord)
CROSS JOIN LATERAL (
    SELECT m.id, m.value FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.namespace = w.namespace AND m.key = w.key
      AND {part seen} LIMIT 1
) m
WHERE {few};

-- name: settle_shown
-- The same for given memories, with or without a recorded exposure. Held-out memories stay open:
-- they were not shown.
WITH given AS MATERIALIZED (
    SELECT m.id, min(w.ord) AS position
    FROM unnest(%(namespaces)s::text[], %(keys)s::text[])
             WITH ORDINALITY AS w (namespace, key, ord)
    CROSS JOIN LATERAL (
        SELECT m.id FROM {memory}.memories m
        WHERE m.tenant = %(tenant)s AND m.namespace = w.namespace AND m.key = w.key
          AND {part seen} LIMIT 1
    ) m
    WHERE {few}
    GROUP BY m.id
), {part attempts}, open AS MATERIALIZED (
    SELECT e.run, e.id, e.held_out
    FROM (SELECT a.run, a.id FROM attempts a WHERE a.settled_at IS NULL AND NOT a.held_out
            AND a.id IN (SELECT g.id FROM given g) ORDER BY a.run, a.id) a
    CROSS JOIN LATERAL (
        SELECT e.* FROM {memory}.exposures e
        WHERE e.tenant = %(tenant)s AND e.run = a.run AND e.id = a.id AND e.settled_at IS NULL
        LIMIT 1 FOR UPDATE
    ) e
), {part ranked}, known AS (
    {part settled}
), noted AS (
    INSERT INTO {memory}.exposures AS e
        (tenant, run, id, project, position, held_out, exposed_at, succeeded, settled_at,
         settled_by, user_id, used)
    SELECT %(tenant)s, %(run)s, g.id, %(project)s, g.position, false, %(now)s::timestamptz,
           %(succeeded)s, %(now)s::timestamptz, %(run)s, %(user_id)s,
           g.id <> ALL (%(unused)s::bigint[])
    FROM given g
    WHERE NOT EXISTS (SELECT FROM attempts a WHERE a.id = g.id)
    ORDER BY g.id
    ON CONFLICT (tenant, run, id) DO UPDATE
    SET succeeded = excluded.succeeded, settled_at = excluded.settled_at,
        settled_by = excluded.settled_by, used = excluded.used
    WHERE e.settled_at IS NULL AND NOT e.held_out
    RETURNING e.id, e.used
), settled AS (
    SELECT k.id, k.held_out, k.counts, k.used FROM known k
    UNION ALL
    SELECT n.id, false, true, n.used FROM noted n
), {part credited}
SELECT count(*) FILTER (WHERE s.counts AND s.used IS NOT FALSE), 0::bigint,
       count(*) FILTER (WHERE s.counts AND s.used IS FALSE)
FROM settled s;

-- name: forget_exposures
-- Delete a batch of old exposures without a result. The latest one of a memory in a project stays,
-- as promotion counts the projects in which it was shown. Returns the count.
WITH old AS MATERIALIZED (
    SELECT e.tenant, e.run, e.id FROM {memory}.exposures e
    WHERE e.succeeded IS NULL AND e.exposed_at < %(before)s::timestamptz
      AND (e.held_out OR e.project IS NULL OR EXISTS (
          SELECT FROM {memory}.exposures o
          WHERE o.tenant = e.tenant AND o.id = e.id AND o.project = e.project AND NOT o.held_out
            AND (o.exposed_at, o.run) > (e.exposed_at, e.run)
      ))
    ORDER BY e.exposed_at
    LIMIT 1000
    FOR UPDATE OF e SKIP LOCKED
), gone AS (
    DELETE FROM {memory}.exposures e USING old o
    WHERE e.tenant = o.tenant AND e.run = o.run AND e.id = o.id
    RETURNING e.id
)
SELECT count(*) FROM gone;

-- part: holds
-- True if the memory m is of a call that was tried in just this form, unless it, or the memory from
-- which it was promoted, was later learned to work.
m.value ->> 'original_approach' = %(approach)s::text AND NOT EXISTS (
    SELECT FROM {memory}.events e
    WHERE e.tenant = m.tenant AND e.id = m.id AND e.kind = 'works' AND e.at >= m.updated_at
) AND NOT EXISTS (
    SELECT FROM {memory}.lineage l
    JOIN {memory}.memories s ON s.tenant = l.tenant AND s.id = l.source
    JOIN {memory}.events e ON e.tenant = l.tenant AND e.id = l.source
    WHERE l.tenant = m.tenant AND l.id = m.id AND e.kind = 'works' AND e.at >= s.updated_at
)

-- part: taught_of
SELECT n.id, n.tier
FROM (
    SELECT m.id, m.tier, m.namespace, m.key, m.updated_at, m.value ? 'improved_approach' AS taught
    FROM {memory}.memories m
    WHERE m.tier = '{tier}' AND m.tenant = %(tenant)s
      AND m.namespace || '' >= %({tier}_low)s AND m.namespace || '' < %({tier}_high)s
      AND {part visible} AND {part seen}
      AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
      AND (%(approach)s::text IS NULL OR {part holds})

-- part: taught_first
-- The newest thousand, lessons before attempts.
    ORDER BY m.updated_at DESC, m.namespace, m.key
    LIMIT 1000
) n
ORDER BY n.taught DESC, n.updated_at DESC, n.namespace, n.key
LIMIT 100

-- leg: lessons
-- Lessons of failures with one of these signatures, or in one of these tools: a hundred of the
-- newest thousand of each, lessons before attempts. If there are more, words and vectors find the
-- others. The "|| ''" keeps the planner from reading all of a namespace for a few signatures.
(
    SELECT m.id, m.tier
    FROM unnest(%(signatures)s::text[]) AS w (signature)
    CROSS JOIN LATERAL (
        {part taught_of} AND m.signature = w.signature
        {part taught_first}
    ) m
    UNION
    SELECT m.id, m.tier
    FROM unnest(%(tools)s::text[]) AS w (tool)
    CROSS JOIN LATERAL (
        {part taught_of} AND m.tool = w.tool
        {part taught_first}
    ) m
)

-- name: stop_holding
-- Note that the content of lessons works.
INSERT INTO {memory}.events (tenant, event, kind, id, at, detail)
SELECT %(tenant)s, %(event)s || '-' || m.id, 'works', m.id, %(now)s::timestamptz,
       jsonb_build_object('reasons', jsonb_build_array('it was tried all the same, and works'))
FROM unnest(%(namespaces)s::text[], %(keys)s::text[]) WITH ORDINALITY AS w (namespace, key, ord)
CROSS JOIN LATERAL (
    SELECT m.id FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.namespace = w.namespace AND m.key = w.key AND {part seen} LIMIT 1
) m
WHERE {few};

-- name: failures_alike
-- The number of a tenant's visible failures with each of these signatures and, without one, of all
-- failures; up to two thousand.
SELECT w.signature, (
    SELECT count(*) FROM (
        SELECT FROM {memory}.memories m
        WHERE m.tenant = %(tenant)s AND m.signature = w.signature AND {part seen} LIMIT 2000
    ) few
)
FROM unnest(%(signatures)s::text[]) AS w (signature)
UNION ALL
SELECT NULL, (
    SELECT count(*) FROM (
        SELECT FROM {memory}.memories m
        WHERE m.tenant = %(tenant)s AND m.signature IS NOT NULL AND {part seen} LIMIT 2000
    ) few
);

-- name: failed_tools
-- Every tool of this tenant with a failure, in as many steps through the index.
WITH RECURSIVE known AS (
    SELECT ''::text COLLATE "C" AS tool
    UNION ALL
    SELECT n.tool
    FROM known k
    CROSS JOIN LATERAL (
        SELECT m.tool FROM {memory}.memories m
        WHERE m.tenant = %(tenant)s AND m.tool > k.tool
        ORDER BY m.tool LIMIT 1
    ) n
)
SELECT k.tool FROM known k WHERE k.tool <> '';

-- part: risen
-- True if the edge l is of a promotion: a promoted memory stays as it is, and current. Each edge is
-- looked up on its own: OFFSET keeps the planner from a plan that reads all events.
l.derived AND EXISTS (
    SELECT FROM {memory}.events e
    WHERE e.tenant = l.tenant AND e.event = l.event AND e.kind IN ('promoted', 'reinforced') OFFSET 0
)

-- part: lived_on
-- True if the source of the edge l was promoted, or lives on in another memory.
(NOT l.derived OR {part risen})

-- part: told_here
-- True if the memory m was promoted from one of the project asked for: that project sees its own
-- memory, whatever became of it, and not both.
CASE WHEN m.tier = 'long_term' THEN EXISTS (
    SELECT FROM {memory}.lineage l
    CROSS JOIN LATERAL (
        SELECT FROM {memory}.memories s
        WHERE s.tenant = l.tenant AND s.id = l.source AND s.tier = 'working'
          AND s.namespace >= %(working_low)s AND s.namespace < %(working_high)s AND {part seen s}
          AND (s.expires_at IS NULL OR s.expires_at > %(alive_at)s) LIMIT 1
    ) s
    WHERE l.tenant = %(tenant)s AND l.id = m.id AND {part risen}
) ELSE false END

-- name: promotion_candidates
-- Working memories that may have proven themselves: read often enough, and tried with success or,
-- if never tried, important enough; of these types, current and true, without a demoted successor,
-- and in no promotion that was rolled back; those of `everybody`, or the caller's visible ones.
SELECT m.id
FROM {memory}.usage u
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m
    WHERE m.tenant = u.tenant AND m.id = u.id AND m.tier = 'working'
      AND (%(everybody)s::boolean OR {part seen}) LIMIT 1
) m
WHERE u.tenant = %(tenant)s AND u.id > %(after)s
  AND (u.success_count > 0 AND u.access_count > %(accesses)s OR u.success_count = 0 AND u.failure_count = 0
       AND jsonb_typeof(m.value -> 'importance') = 'number'
       AND m.value -> 'importance' >= to_jsonb(%(importance)s::float8))
  AND m.state IS NULL AND m.created_at < %(before)s::timestamptz
  AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
  AND (m.valid_from IS NULL OR m.valid_from <= %(now)s::timestamptz)
  AND (m.valid_to IS NULL OR m.valid_to > %(now)s::timestamptz)
  AND coalesce(m.value ->> 'memory_type', 'episodic') = ANY (%(memory_types)s::text[])
  AND NOT EXISTS (
      SELECT FROM {memory}.lineage l
      WHERE l.tenant = u.tenant AND l.source = u.id AND {part lived_on}
  )
  AND NOT EXISTS (
      SELECT FROM {memory}.events e
      WHERE e.tenant = u.tenant AND e.undone_at IS NOT NULL
        AND e.kind IN ('promoted', 'reinforced') AND e.detail -> 'sources' @> to_jsonb(u.id)
  )
ORDER BY u.id
LIMIT %(limit)s;

-- name: promotion_evidence
-- The evidence for and against each of these memories: its counts; the projects whose runs were
-- given it or that learned the same; the days and sessions in which it was shown; and the nearest
-- working memories of the same user that are true at the same time and may be promoted as well.
-- Near is the cosine of the same fields, whatever the metric of searches is.
SELECT m.id, m.namespace, m.key, m.value, m.tier::text, m.state, m.created_at, m.updated_at,
       coalesce(u.access_count, 0), coalesce(u.success_count, 0), coalesce(u.failure_count, 0),
       ARRAY(
           SELECT e.project FROM {memory}.exposures e
           WHERE e.tenant = %(tenant)s AND e.id = m.id AND e.project IS NOT NULL
             AND NOT e.held_out
           UNION
           SELECT k.value ->> 'project_id' FROM {memory}.memories k
           WHERE k.tenant = %(tenant)s AND k.signature = m.signature
             AND k.value ->> 'project_id' IS NOT NULL
       ) AS projects,
       coalesce((
           SELECT jsonb_agg(jsonb_build_object(
               'id', n.id, 'namespace', n.namespace, 'key', n.key, 'distance', n.distance,
               'project_id', n.value ->> 'project_id', 'updated_at', n.updated_at,
               'expires_at', n.expires_at, 'memory_type', coalesce(n.value ->> 'memory_type', 'episodic'),
               'trust', n.value -> 'trust',
               'content', CASE WHEN jsonb_typeof(n.value -> 'content') = 'string'
                               THEN n.value ->> 'content'
                               WHEN jsonb_typeof(n.value -> 'text') = 'string'
                               THEN n.value ->> 'text' END,
               'success_count', coalesce(n.success_count, 0),
               'failure_count', coalesce(n.failure_count, 0)
           ) ORDER BY n.distance, n.id)
           FROM (
               SELECT k.*, u.success_count, u.failure_count
               FROM (
                   SELECT k.*, v.distance
                   FROM (
                       -- The same fields, each as far as the farthest at most. Within a pair of
                       -- memories each vector meets each. Those of the same field are as many as
                       -- either memory has, if the square of their count is that of all.
                       SELECT v.id, max(v.embedding <=> own.embedding)
                                        FILTER (WHERE v.field = own.field) AS distance
                       FROM {memory}.vectors own
                       JOIN {memory}.vectors v
                         ON v.tenant = %(tenant)s AND v.tier = 'working' AND v.id <> own.id
                       WHERE own.tenant = %(tenant)s AND own.tier = m.tier
                         AND own.namespace = m.namespace AND own.id = m.id
                       GROUP BY v.id
                       HAVING count(*) FILTER (WHERE v.field = own.field)
                              * count(*) FILTER (WHERE v.field = own.field) = count(*)
                       -- Sorted here, so that only the nearest are looked up below.
                       ORDER BY distance, v.id
                   ) v
                   CROSS JOIN LATERAL (
                       SELECT * FROM {memory}.memories k
                       WHERE k.tenant = %(tenant)s AND k.id = v.id AND k.tier = 'working'
                         AND k.state IS NULL AND k.user_id IS NOT DISTINCT FROM m.user_id
                         AND k.valid_from IS NOT DISTINCT FROM m.valid_from
                         AND k.valid_to IS NOT DISTINCT FROM m.valid_to
                         AND NOT EXISTS (
                             SELECT FROM {memory}.events e
                             WHERE e.tenant = %(tenant)s AND e.undone_at IS NOT NULL
                               AND e.kind IN ('promoted', 'reinforced')
                               AND e.detail -> 'sources' @> to_jsonb(k.id)
                         ) AND NOT EXISTS (
                             SELECT FROM {memory}.lineage l
                             WHERE l.tenant = %(tenant)s AND l.source = k.id AND {part lived_on}
                         ) LIMIT 1
                   ) k
                   WHERE v.distance <> 'NaN'
                   ORDER BY v.distance, v.id LIMIT 100
               ) k
               LEFT JOIN LATERAL (
                   SELECT * FROM {memory}.usage u WHERE u.tenant = %(tenant)s AND u.id = k.id LIMIT 1
               ) u ON true
           ) n
       ), '[]'::jsonb) AS near,
       (SELECT jsonb_build_object('key', s.key, 'state', s.state, 'risen', l.derived)
        FROM {memory}.lineage l
        JOIN {memory}.memories s ON s.tenant = l.tenant AND s.id = l.id
        WHERE l.tenant = %(tenant)s AND l.source = m.id AND {part lived_on}
        ORDER BY l.derived LIMIT 1) AS successor,
       m.valid_from, m.valid_to, m.user_id, x.days, x.sessions, x.outcomes,
       ARRAY(
           SELECT DISTINCT k.value ->> 'project_id' FROM {memory}.memories k
           WHERE k.tenant = %(tenant)s AND k.signature = m.signature
             AND (k.state IS NULL OR k.state = 'consolidated')
             AND k.user_id IS NOT DISTINCT FROM m.user_id
             AND k.value ->> 'project_id' IS NOT NULL
       ) AS learned
FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS w (id, ord)
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m WHERE m.tenant = %(tenant)s AND m.id = w.id LIMIT 1
) m
CROSS JOIN LATERAL (
    SELECT count(DISTINCT (e.exposed_at AT TIME ZONE 'UTC')::date) AS days,
           count(DISTINCT e.session) AS sessions,
           count(*) FILTER (WHERE e.succeeded IS NOT NULL) AS outcomes
    FROM {memory}.exposures e
    WHERE e.tenant = %(tenant)s AND e.id = m.id AND NOT e.held_out
) x
LEFT JOIN LATERAL (
    SELECT * FROM {memory}.usage u WHERE u.tenant = %(tenant)s AND u.id = m.id LIMIT 1
) u ON true
WHERE {few}
ORDER BY w.ord;

-- name: promotion_vocabulary
-- The texts of the newest memories of a project, and of the tenant's other projects, a thousand in
-- all at most: they tell which words others know.
SELECT m.own, m.said
FROM (
    SELECT n.namespace = %(namespace)s AS own, left(n.said, 2000) AS said,
           row_number() OVER (PARTITION BY n.namespace = %(namespace)s ORDER BY n.updated_at DESC) AS place
    FROM (
        SELECT m.namespace, m.updated_at,
               coalesce(m.value ->> 'content', m.value ->> 'text') AS said
        FROM {memory}.memories m
        WHERE m.tenant = %(tenant)s AND m.tier = 'working' AND m.id <> %(id)s
          AND (m.state IS NULL OR m.state = 'consolidated')
          AND m.user_id IS NOT DISTINCT FROM %(owner)s
          AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
        ORDER BY m.updated_at DESC
        LIMIT 10000
    ) n
    WHERE n.said IS NOT NULL
) m
WHERE m.place <= 500;

-- name: promotion_heard
-- The statements of a project's conversations, the newest five hundred: a lesson that quotes one is
-- not for all.
SELECT left(coalesce(m.value ->> 'content', m.value ->> 'text', ''), 2000) AS said
FROM {memory}.memories m
WHERE m.tenant = %(tenant)s AND m.tier IN ('short_term', 'working') AND m.speaker IS NOT NULL
  AND m.namespace >= %(low)s AND m.namespace < %(high)s
  AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
ORDER BY m.updated_at DESC
LIMIT 500;

-- name: promotion_sources
-- Once the keys are locked: the memories to promote as they are now, locked until the end, without
-- those that have expired, are no longer true, or have lived on in a memory before.
SELECT m.id, m.tier::text, m.state, m.updated_at
FROM (SELECT DISTINCT w.id FROM unnest(%(sources)s::bigint[]) AS w (id) ORDER BY w.id) w
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.id = w.id
      AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
      AND (m.valid_to IS NULL OR m.valid_to > %(now)s::timestamptz)
      AND NOT EXISTS (
          SELECT FROM {memory}.lineage l
          WHERE l.tenant = m.tenant AND l.source = m.id AND {part lived_on}
      )
    LIMIT 1 FOR UPDATE OF m
) m;

-- name: promotion_targets
-- Memories that may already have the same lesson: the one of the successor's key, then the nearest
-- in its place in long_term that are true at the same time, by the cosine of that field, nearest
-- first.
SELECT m.key, m.tier::text, m.state, NULL::float8 AS distance,
       coalesce(m.value ->> 'memory_type', 'episodic'), m.value -> 'trust', m.value
FROM {memory}.memories m
WHERE m.tenant = %(tenant)s AND m.key = %(key)s AND m.namespace = %(place)s
  AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
UNION ALL
SELECT n.key, n.tier, n.state, n.distance, n.memory_type, n.trust, n.value
FROM (
    SELECT m.key, m.tier::text, m.state, n.distance,
           coalesce(m.value ->> 'memory_type', 'episodic') AS memory_type,
           m.value -> 'trust' AS trust, m.value
    FROM (
        SELECT v.id, (v.embedding <=> %(query)s::{vector_type}) + 0 AS distance
        FROM {memory}.vectors v
        WHERE v.tenant = %(tenant)s AND v.tier = 'long_term' AND v.namespace = %(place)s
          AND v.field = %(field)s AND %(query)s::{vector_type} IS NOT NULL
        ORDER BY distance, v.id
    ) n
    CROSS JOIN LATERAL (
        SELECT * FROM {memory}.memories m
        WHERE m.tenant = %(tenant)s AND m.id = n.id AND m.tier = 'long_term'
          AND (m.state IS NULL OR m.state = 'demoted')
          AND m.valid_from IS NOT DISTINCT FROM %(valid_from)s::timestamptz
          AND m.valid_to IS NOT DISTINCT FROM %(valid_to)s::timestamptz
          AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s) LIMIT 1
    ) m
    ORDER BY n.distance, n.id LIMIT 100
) n;

-- name: record_promotion
-- Share the successor with everybody; the sources stay as they are. Record the derivation, hand on
-- their evidence, and keep the successor's state, for the way back. A source whose evidence it had
-- before (`again`: the successor left long_term and came back, or the source had other content
-- meanwhile) is not counted twice. Returns the event, or nothing if the successor is missing: then
-- nothing was done.
WITH successor AS MATERIALIZED (
    SELECT m.tenant, m.id, m.updated_at FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.namespace = %(place)s AND m.key = %(key)s
      AND m.tier = 'long_term' AND m.state IS NULL
    LIMIT 1 FOR NO KEY UPDATE
), risen AS MATERIALIZED (
    SELECT m.id, m.updated_at FROM successor s, {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.id = ANY (%(sources)s::bigint[]) AND m.tier = 'working'
      AND m.state IS NULL AND NOT EXISTS (
          SELECT FROM {memory}.lineage l
          WHERE l.tenant = m.tenant AND l.source = m.id AND {part lived_on}
      )
), edges AS (
    INSERT INTO {memory}.lineage (tenant, id, source, event, derived)
    SELECT s.tenant, s.id, k.id, %(event)s, true FROM successor s, risen k
), had AS MATERIALIZED (
    SELECT u.* FROM successor s
    CROSS JOIN LATERAL (
        SELECT * FROM {memory}.usage u WHERE u.tenant = s.tenant AND u.id = s.id LIMIT 1
    ) u
), again AS MATERIALIZED (
    SELECT w.id FROM successor s, unnest(%(sources)s::bigint[]) AS w (id)
    WHERE EXISTS (
        SELECT FROM {memory}.events e
        WHERE e.tenant = s.tenant AND e.target = s.id AND e.undone_at IS NULL
          AND e.detail -> 'sources' @> to_jsonb(w.id)
    )
), given AS MATERIALIZED (
    SELECT coalesce(sum(u.access_count), 0)::int AS access_count,
           coalesce(sum(u.success_count), 0)::int AS success_count,
           coalesce(sum(u.failure_count), 0)::int AS failure_count,
           max(u.last_accessed_at) AS last_accessed_at, max(u.strength_at) AS strength_at,
           -- Each as of the latest of them.
           coalesce(sum(u.strength * power(0.5, coalesce(
               extract(epoch FROM u.latest - u.strength_at), 0) / 2592000) ORDER BY u.id), 0)
               AS strength
    FROM (
        SELECT u.*, max(u.strength_at) OVER () AS latest
        FROM unnest(%(sources)s::bigint[]) WITH ORDINALITY AS w (id, ord)
        CROSS JOIN LATERAL (
            SELECT * FROM {memory}.usage u WHERE u.tenant = %(tenant)s AND u.id = w.id LIMIT 1
        ) u
        WHERE {few} AND w.id NOT IN (SELECT a.id FROM again a)
    ) u
), handed AS (
    INSERT INTO {memory}.usage AS u
        (tenant, id, access_count, success_count, failure_count, last_accessed_at, strength,
         strength_at)
    SELECT s.tenant, s.id, g.access_count, g.success_count, g.failure_count, g.last_accessed_at,
           g.strength, g.strength_at
    FROM successor s, given g
    {part added_up}
)
INSERT INTO {memory}.events (tenant, event, kind, id, target, at, detail)
SELECT s.tenant, %(event)s, %(kind)s, (%(sources)s::bigint[])[1], s.id, %(now)s::timestamptz,
       %(detail)s::jsonb || jsonb_build_object(
           'sources', to_jsonb(%(sources)s::bigint[]), 'updated_at', s.updated_at,
           'versions', (SELECT jsonb_object_agg(k.id, k.updated_at) FROM risen k),
           'again', ARRAY(SELECT a.id FROM again a ORDER BY a.id),
           'handed', to_jsonb(g), 'had', (SELECT to_jsonb(h) FROM had h)
       )
FROM successor s, given g
RETURNING event;

-- name: demotion_candidates
-- Promoted memories, with the outcomes of the latest runs to which they were shown since then, or
-- since a demotion was last rolled back.
SELECT m.id, m.namespace, m.key, m.created_at, m.updated_at, x.successes, x.failures
FROM (
    SELECT DISTINCT e.target FROM {memory}.events e
    WHERE e.tenant = %(tenant)s AND e.target > %(after)s AND e.kind = 'promoted'
      AND e.undone_at IS NULL
) e
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.id = e.target AND m.tier = 'long_term'
      AND (%(everybody)s::boolean OR {part seen}) LIMIT 1
) m
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE x.succeeded) AS successes,
           count(*) FILTER (WHERE NOT x.succeeded) AS failures
    FROM (
        SELECT x.succeeded FROM {memory}.exposures x
        WHERE x.tenant = %(tenant)s AND x.id = e.target AND NOT x.held_out
          AND x.succeeded IS NOT NULL AND x.used IS NOT FALSE
          AND x.settled_at > (
              SELECT coalesce(max(d.undone_at), '-infinity') FROM {memory}.events d
              WHERE d.tenant = %(tenant)s AND d.id = e.target AND d.kind = 'demoted'
          )
        ORDER BY x.settled_at DESC, x.run DESC
        LIMIT %(latest)s
    ) x
) x
WHERE m.state IS NULL AND x.failures > 0
ORDER BY e.target
LIMIT %(limit)s;


-- part: with_and_without
-- For the memory m, of its latest 400 outcomes since a demotion of it was last rolled back:
-- successful runs and all runs, with it and without it.
SELECT count(*) FILTER (WHERE e.succeeded AND NOT e.held_out) AS shown_successes,
       count(*) FILTER (WHERE NOT e.held_out) AS shown,
       count(*) FILTER (WHERE e.succeeded AND e.held_out) AS held_successes,
       count(*) FILTER (WHERE e.held_out) AS held
FROM (
    SELECT e.succeeded, e.held_out FROM {memory}.exposures e
    WHERE e.tenant = %(tenant)s AND e.id = m.id AND e.succeeded IS NOT NULL
      AND e.settled_at > (
          SELECT coalesce(max(d.undone_at), '-infinity') FROM {memory}.events d
          WHERE d.tenant = %(tenant)s AND d.id = m.id AND d.kind = 'demoted'
      )

-- name: harm_candidates
-- Current lessons of these types, with the latest 400 runs to which they were shown, or which went
-- without them, since they were last put or a demotion of them was rolled back; and the average
-- over all runs. A lesson that no run went without has no comparison.
SELECT m.id, m.namespace, m.key, m.created_at, m.updated_at,
       o.shown_successes, o.shown, o.held_successes, o.held, s.successes, s.tries, m.tier::text,
       left(coalesce(m.value ->> 'content', m.value ->> 'text', m.value::text), 400)
FROM (
    SELECT DISTINCT e.id FROM {memory}.exposures e
    WHERE e.tenant = %(tenant)s AND e.id > %(after)s AND e.held_out AND e.succeeded IS NOT NULL
) h
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.id = h.id AND m.tier IN ('working', 'long_term')
      AND m.state IS NULL AND (%(everybody)s::boolean OR {part seen})
      AND m.value ->> 'memory_type' = ANY (%(memory_types)s::text[]) LIMIT 1
) m
CROSS JOIN LATERAL (
    {part with_and_without}
          AND e.exposed_at >= m.updated_at
        ORDER BY e.settled_at DESC LIMIT 400
    ) e
) o
CROSS JOIN (
    SELECT count(*) FILTER (WHERE s.succeeded) AS successes, count(*) AS tries
    FROM (
        SELECT e.succeeded FROM {memory}.exposures e
        WHERE e.tenant = %(tenant)s AND e.succeeded IS NOT NULL
        ORDER BY e.settled_at DESC LIMIT 500
    ) s
) s
WHERE o.held > 0 AND o.held + o.shown >= %(enough)s
ORDER BY m.id
LIMIT %(limit)s;

-- name: record_demotion
-- A failed memory leaves recall, and the memories that lived on in it are current again.
WITH marked AS (
    UPDATE {memory}.memories m SET state = 'demoted', state_at = %(now)s::timestamptz
    WHERE m.tenant = %(tenant)s AND m.id = %(id)s AND m.tier = %(tier)s::text::{memory}.tier
      AND m.state IS NULL
    RETURNING m.id, m.tier
), freed AS (
    UPDATE {memory}.memories m SET state = NULL, state_at = NULL
    FROM {memory}.lineage l, marked k
    WHERE l.tenant = %(tenant)s AND l.id = k.id AND NOT l.derived AND k.tier = 'long_term'
      AND m.tenant = l.tenant AND m.id = l.source
      AND m.state = 'consolidated'
    RETURNING m.id
)
INSERT INTO {memory}.events (tenant, event, kind, id, at, detail)
SELECT %(tenant)s, %(event)s, 'demoted', k.id, %(now)s::timestamptz,
       %(detail)s::jsonb || jsonb_build_object(
           'sources', coalesce((SELECT jsonb_agg(f.id ORDER BY f.id) FROM freed f), '[]'::jsonb)
       )
FROM marked k
RETURNING event;

-- name: event
-- One event; whether a later event rests on the same memories; the place of its result; and whether
-- any memory that it moved is alive with its old content: it lives on in the target, or was not put
-- since, whatever the clocks of the writers say.
SELECT e.event, e.kind, e.id, e.target, e.detail, e.undone_at,
       (SELECT l.event FROM {memory}.events l
        WHERE l.tenant = e.tenant AND l.undone_at IS NULL AND l.number > e.number
          AND l.kind NOT IN ('reflected', 'derived', 'works')
          AND NOT (e.kind = 'superseded' AND l.kind = 'retracted' AND l.id = e.target)
          AND (l.id IN (e.id, e.target) OR l.target IN (e.id, e.target))
          -- A promoted memory is a memory of its own: later moves of it rest on nothing.
          AND (e.kind NOT IN ('promoted', 'reinforced') OR l.kind IN ('promoted', 'reinforced')
               OR e.target = l.id OR e.target = l.target)
        ORDER BY l.number DESC LIMIT 1) AS later,
       (SELECT m.key FROM {memory}.memories m
        WHERE m.tenant = e.tenant AND m.id = k.id LIMIT 1) AS key,
       (SELECT m.updated_at FROM {memory}.memories m
        WHERE m.tenant = e.tenant AND m.id = k.id LIMIT 1) AS updated_at,
       EXISTS (
           SELECT FROM jsonb_array_elements_text(e.detail -> 'sources') AS w (id)
           CROSS JOIN LATERAL (
               SELECT FROM {memory}.memories m
               WHERE m.tenant = e.tenant AND m.id = w.id::bigint
                 AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
                 AND (coalesce(
                     m.updated_at = (e.detail -> 'versions' ->> w.id)::timestamptz,
                     m.updated_at < e.at
                 ) OR EXISTS (
                     SELECT FROM {memory}.lineage l
                     WHERE l.tenant = e.tenant AND l.id = e.target AND l.source = m.id
                 )) LIMIT 1
           ) m
       ) AS source_left,
       (SELECT m.tier::text FROM {memory}.memories m
        WHERE m.tenant = e.tenant AND m.id = k.id LIMIT 1) AS tier,
       (SELECT m.namespace FROM {memory}.memories m
        WHERE m.tenant = e.tenant AND m.id = k.id LIMIT 1) AS namespace,
       (SELECT m.user_id FROM {memory}.memories m
        WHERE m.tenant = e.tenant AND m.id = k.id LIMIT 1) AS user_id
FROM {memory}.events e
CROSS JOIN LATERAL (
    -- The memories that the move made or changed. A supersession changed the older memory alone.
    SELECT CASE WHEN e.kind = 'superseded' OR e.target IS NULL THEN e.id ELSE e.target END AS id
) k
WHERE e.tenant = %(tenant)s AND e.event = %(event)s;

-- name: undo_promotion
-- Give the successor's exposures and evidence since then back to its first source that still exists
-- with the same content. The successor is deleted afterwards.
WITH heir AS MATERIALIZED (
    SELECT m.id, e.target, jsonb_populate_record(NULL::{memory}.usage, e.detail -> 'handed') AS u
    FROM {memory}.events e
    CROSS JOIN LATERAL jsonb_array_elements_text(e.detail -> 'sources')
        WITH ORDINALITY AS w (id, ord)
    CROSS JOIN LATERAL (
        SELECT m.id FROM {memory}.memories m
        WHERE m.tenant = e.tenant AND m.id = w.id::bigint
          AND (coalesce(
              m.updated_at = (e.detail -> 'versions' ->> w.id)::timestamptz, m.updated_at < e.at
          ) OR EXISTS (
              SELECT FROM {memory}.lineage l
              WHERE l.tenant = e.tenant AND l.id = e.target AND l.source = m.id
          )) LIMIT 1
    ) m
    WHERE e.tenant = %(tenant)s AND e.event = %(event)s
    ORDER BY w.ord
    LIMIT 1
), shown AS (
    UPDATE {memory}.exposures x SET id = h.id FROM heir h
    WHERE x.tenant = %(tenant)s AND x.id = h.target AND NOT EXISTS (
        SELECT FROM {memory}.exposures o
        WHERE o.tenant = x.tenant AND o.id = h.id
          AND (o.run = x.run OR o.settled_by = x.settled_by)
    )
    RETURNING x.succeeded, x.held_out OR x.used IS FALSE AS held_out
), earned AS MATERIALIZED (
    SELECT h.id, o.successes, o.failures, n.last_accessed_at, n.strength_at,
           greatest(0, coalesce(n.access_count - (h.u).access_count, 0)) AS accesses,
           greatest(0, n.strength - (h.u).strength * power(0.5, greatest(0, coalesce(extract(
               epoch FROM n.strength_at - coalesce((h.u).strength_at, (h.u).last_accessed_at)), 0))
               / 2592000)) AS strength
    FROM heir h
    CROSS JOIN (
        SELECT count(*) FILTER (WHERE s.succeeded AND NOT s.held_out)::int AS successes,
               count(*) FILTER (WHERE NOT s.succeeded AND NOT s.held_out)::int AS failures
        FROM shown s
    ) o
    LEFT JOIN LATERAL (
        SELECT * FROM {memory}.usage n WHERE n.tenant = %(tenant)s AND n.id = h.target LIMIT 1
    ) n ON true
), handed AS (
    INSERT INTO {memory}.usage AS u
        (tenant, id, access_count, success_count, failure_count, last_accessed_at, strength,
         strength_at)
    SELECT %(tenant)s, e.id, e.accesses, e.successes, e.failures,
           CASE WHEN e.accesses > 0 THEN e.last_accessed_at END,
           CASE WHEN e.accesses > 0 THEN e.strength ELSE 0 END,
           CASE WHEN e.accesses > 0 THEN e.strength_at END
    FROM earned e
    WHERE e.accesses > 0 OR e.successes > 0 OR e.failures > 0
    {part added_up}
)
UPDATE {memory}.events e SET undone_at = %(now)s::timestamptz
WHERE e.tenant = %(tenant)s AND e.event = %(event)s;

-- name: undo_reinforcement
-- Take back the evidence that a memory was given, down to the very row it had if nothing happened
-- since.
WITH moved AS MATERIALIZED (
    SELECT e.target, e.detail -> 'had' <> 'null'::jsonb AS counted,
           ARRAY(SELECT jsonb_array_elements_text(e.detail -> 'sources'))::bigint[] AS sources,
           jsonb_populate_record(NULL::{memory}.usage, e.detail -> 'handed') AS u,
           jsonb_populate_record(NULL::{memory}.usage, nullif(e.detail -> 'had', 'null')) AS had
    FROM {memory}.events e WHERE e.tenant = %(tenant)s AND e.event = %(event)s
), past AS MATERIALIZED (
    SELECT m.*, t.u_at, greatest(t.had_at, t.u_at) AS made_at,
           (m.had).strength * power(0.5, greatest(0, coalesce(extract(epoch FROM
               t.u_at - t.had_at), 0)) / 2592000)
           + (m.u).strength * power(0.5, greatest(0, coalesce(extract(epoch FROM
               t.had_at - t.u_at), 0)) / 2592000) AS made
    FROM moved m
    CROSS JOIN LATERAL (
        SELECT coalesce((m.u).strength_at, (m.u).last_accessed_at) AS u_at,
               coalesce((m.had).strength_at, (m.had).last_accessed_at) AS had_at
    ) t
), edges AS (
    -- A merged memory may live on in another by now, if the target has other content.
    DELETE FROM {memory}.lineage l USING past p
    WHERE l.tenant = %(tenant)s AND l.event = %(event)s
      AND (l.id = p.target OR l.source = ANY (p.sources))
    RETURNING l.source
), sources AS (
    UPDATE {memory}.memories m SET state = NULL, state_at = NULL FROM edges e
    WHERE m.tenant = %(tenant)s AND m.id = e.source AND m.state = 'consolidated'
), taken AS (
    UPDATE {memory}.usage n
    SET access_count = n.access_count - (p.u).access_count,
        success_count = n.success_count - (p.u).success_count,
        failure_count = n.failure_count - (p.u).failure_count,
        last_accessed_at = CASE WHEN n.last_accessed_at = greatest((p.u).last_accessed_at, (p.had).last_accessed_at)
                           THEN (p.had).last_accessed_at ELSE n.last_accessed_at END,
        strength = CASE WHEN n.strength = p.made AND n.strength_at IS NOT DISTINCT FROM p.made_at
                   THEN (p.had).strength
                   ELSE greatest(0, n.strength - (p.u).strength * power(0.5, greatest(0, coalesce(
                       extract(epoch FROM n.strength_at - p.u_at), 0)) / 2592000)) END,
        strength_at = CASE WHEN n.strength = p.made AND n.strength_at IS NOT DISTINCT FROM p.made_at
                      THEN (p.had).strength_at ELSE n.strength_at END
    FROM past p
    WHERE n.tenant = %(tenant)s AND n.id = p.target
      AND (p.counted OR n.access_count > (p.u).access_count
           OR n.success_count > (p.u).success_count OR n.failure_count > (p.u).failure_count)
), removed AS (
    DELETE FROM {memory}.usage n USING past p
    WHERE n.tenant = %(tenant)s AND n.id = p.target AND NOT p.counted
      AND n.access_count = (p.u).access_count AND n.success_count = (p.u).success_count
      AND n.failure_count = (p.u).failure_count
)
UPDATE {memory}.events e SET undone_at = %(now)s::timestamptz
WHERE e.tenant = %(tenant)s AND e.event = %(event)s;

-- name: undo_demotion
-- The memory is current again, and its sources live on in it.
WITH past AS MATERIALIZED (
    SELECT e.id, ARRAY(SELECT jsonb_array_elements_text(e.detail -> 'sources'))::bigint[] AS sources
    FROM {memory}.events e WHERE e.tenant = %(tenant)s AND e.event = %(event)s
), edges AS MATERIALIZED (
    -- Locked, so that a source with other content by now is left alone.
    SELECT l.tenant, l.id, l.source, (
               SELECT e.at FROM {memory}.events e
               WHERE e.tenant = l.tenant AND e.event = l.event
           ) AS at
    FROM {memory}.lineage l, past p
    WHERE l.tenant = %(tenant)s AND l.id = p.id AND l.source = ANY (p.sources) AND NOT l.derived
    ORDER BY l.source FOR UPDATE OF l
), marked AS (
    UPDATE {memory}.memories m SET state = NULL, state_at = NULL FROM past p
    WHERE m.tenant = %(tenant)s AND m.id = p.id AND m.state = 'demoted'
    RETURNING m.id
), sources AS (
    UPDATE {memory}.memories m SET state = 'consolidated', state_at = l.at
    FROM edges l, marked k
    WHERE l.id = k.id AND m.tenant = l.tenant AND m.id = l.source AND m.state IS NULL
)
UPDATE {memory}.events e SET undone_at = %(now)s::timestamptz
WHERE e.tenant = %(tenant)s AND e.event = %(event)s;

-- name: history_of
-- The moves of a memory, or of the memory in which it lives on, oldest first.
SELECT e.event, e.kind, e.at, e.detail, e.undone_at
FROM {memory}.events e
WHERE e.tenant = %(tenant)s AND (
    e.id = %(id)s OR e.target = %(id)s OR e.detail -> 'sources' @> to_jsonb(%(id)s::bigint)
)
ORDER BY e.number;

-- name: relatives
-- The sources of a memory, its promotions, the memory in which it lives on, and the memories
-- derived from it, without those of another user.
SELECT 'source' AS role, m.namespace, m.key, m.tier::text, m.state, m.value
FROM {memory}.lineage l
JOIN {memory}.memories m ON m.tenant = l.tenant AND m.id = l.source
WHERE l.tenant = %(tenant)s AND l.id = %(id)s AND {part seen}
UNION ALL
SELECT CASE WHEN {part lived_on} THEN 'successor' ELSE 'derived' END, m.namespace, m.key, m.tier::text,
       m.state, m.value
FROM {memory}.lineage l
JOIN {memory}.memories m ON m.tenant = l.tenant AND m.id = l.id
WHERE l.tenant = %(tenant)s AND l.source = %(id)s AND {part seen}
ORDER BY 1, 2, 3;

-- name: holdout_counts
-- For each memory that was ever held out: successful runs and all runs, with it and without it.
SELECT m.namespace, m.key,
       count(*) FILTER (WHERE e.succeeded AND NOT e.held_out), count(*) FILTER (WHERE NOT e.held_out),
       count(*) FILTER (WHERE e.succeeded AND e.held_out), count(*) FILTER (WHERE e.held_out)
FROM {memory}.exposures e
JOIN {memory}.memories m ON m.tenant = e.tenant AND m.id = e.id
WHERE e.tenant = %(tenant)s AND e.succeeded IS NOT NULL AND {part seen}
GROUP BY m.namespace, m.key
HAVING count(*) FILTER (WHERE e.held_out) > 0
ORDER BY m.namespace, m.key;

-- name: holdout_evidence
-- For each of these memories, its outcomes with it and without it, and whether this run already
-- goes without it. Also, without a key, the average: the same over the latest 500 outcomes of
-- memories shown to the user, or to nobody in particular.
SELECT m.namespace, m.key, o.shown_successes, o.shown, o.held_successes, o.held,
       (SELECT e.held_out FROM {memory}.exposures e
        WHERE e.tenant = %(tenant)s AND e.run = %(run)s AND e.id = m.id)
FROM unnest(%(namespaces)s::text[], %(keys)s::text[]) WITH ORDINALITY AS w (namespace, key, ord)
CROSS JOIN LATERAL (
    SELECT m.id, m.namespace, m.key FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.namespace = w.namespace AND m.key = w.key AND {part seen} LIMIT 1
) m
CROSS JOIN LATERAL (
    {part with_and_without}
        ORDER BY e.settled_at DESC LIMIT 400
    ) e
) o
WHERE {few}
UNION ALL
SELECT NULL, NULL, count(*) FILTER (WHERE s.succeeded), count(*), 0, 0, NULL
FROM (
    SELECT e.succeeded FROM {memory}.exposures e
    WHERE e.tenant = %(tenant)s AND e.succeeded IS NOT NULL
      AND (e.user_id IS NULL OR e.user_id = %(user_id)s)
    ORDER BY e.settled_at DESC LIMIT 500
) s;

-- name: recent_traces
-- The newest traces of a project's runs, for the mining of skills. They are searched for in the
-- newest ten thousand memories of the tenant's projects, so that a tenant with few traces is not
-- read from end to end. Quarantined, retracted and suspect traces are left out.
SELECT m.value -> 'trace', {part trust} AS trust
FROM (
    SELECT n.id, n.namespace, n.value, n.updated_at, n.expires_at, n.state
    FROM {memory}.memories n
    WHERE n.tenant = %(tenant)s AND n.tier = 'working'
    ORDER BY n.updated_at DESC
    LIMIT 10000
) m
WHERE m.namespace = %(namespace)s AND m.value -> 'trace' ->> 'run' IS NOT NULL
  AND (m.state IS NULL OR m.state = 'consolidated')
  AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s)
ORDER BY m.updated_at DESC, m.id DESC
LIMIT %(limit)s;

-- name: record_lessons
-- Failed attempts live on in their lessons: mark them, and record the derivation. The lesson of a
-- retracted or suspect attempt is suspect; `doubt`, which follows, sets that.
WITH pairs AS MATERIALIZED (
    SELECT a.id AS attempt, l.id AS lesson, w.event
    FROM unnest(%(attempts)s::text[], %(lessons)s::text[], %(events)s::text[])
             WITH ORDINALITY AS w (attempt, lesson, event, ord)
    CROSS JOIN LATERAL (
        SELECT m.id FROM {memory}.memories m
        WHERE m.tenant = %(tenant)s AND m.key = w.attempt AND m.namespace = ANY (%(places)s::text[])
          AND (m.state IS NULL OR m.state IN ('retracted', 'suspect')) LIMIT 1
    ) a
    CROSS JOIN LATERAL (
        SELECT m.id FROM {memory}.memories m
        WHERE m.tenant = %(tenant)s AND m.key = w.lesson AND m.namespace = ANY (%(places)s::text[])
        LIMIT 1
    ) l
    WHERE {few}
), marked AS (
    UPDATE {memory}.memories m SET state = 'consolidated', state_at = %(now)s::timestamptz
    FROM pairs p
    WHERE m.tenant = %(tenant)s AND m.id = p.attempt AND m.state IS NULL
), edges AS (
    INSERT INTO {memory}.lineage (tenant, id, source, event)
    SELECT %(tenant)s, p.lesson, p.attempt, p.event FROM pairs p
    ON CONFLICT (tenant, id, source) DO NOTHING
)
INSERT INTO {memory}.events (tenant, event, kind, id, target, at, detail)
SELECT %(tenant)s, p.event, 'reflected', p.attempt, p.lesson, %(now)s::timestamptz, '{}'::jsonb
FROM pairs p;
