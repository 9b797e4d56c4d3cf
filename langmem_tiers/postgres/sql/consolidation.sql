-- The statements of consolidation: what a cycle selects, reads and changes, and its lease. The
-- rules of queries.sql hold here too.

-- name: acquire_lease
-- Take a tenant's lease if nobody else holds it, and return its fence. A new holder gets the next
-- fence, and the present holder the same one again.
INSERT INTO {memory}.leases AS l (tenant, holder, fence, until)
VALUES (%(tenant)s, %(holder)s, 1, %(now)s::timestamptz + %(seconds)s::float8 * interval '1 second')
ON CONFLICT (tenant) DO UPDATE
SET holder = excluded.holder, until = excluded.until,
    fence = l.fence + (l.holder <> excluded.holder OR l.until <= %(now)s::timestamptz)::int
WHERE l.holder = excluded.holder OR l.until <= %(now)s::timestamptz
RETURNING l.fence;

-- name: renew_lease
UPDATE {memory}.leases l
SET until = %(now)s::timestamptz + %(seconds)s::float8 * interval '1 second'
WHERE l.tenant = %(tenant)s AND l.fence = %(fence)s::bigint AND isfinite(l.until)
RETURNING l.fence;

-- name: release_lease
-- The row stays, so that the next fence is a higher one.
UPDATE {memory}.leases l SET until = '-infinity'
WHERE l.tenant = %(tenant)s AND l.fence = %(fence)s::bigint
RETURNING l.fence;

-- name: is_leased
SELECT EXISTS (
    SELECT FROM {memory}.leases l WHERE l.tenant = %(tenant)s AND l.until > %(now)s::timestamptz
);

-- name: guard_lease
-- True if a cycle may write: its fence is still the current one or, without a fence, nobody has
-- held a lease since the cycle began. A lease cannot change hands until the cycle's transaction has
-- ended. Postgres ends the transaction of a process that hangs (from 17 on within a round trip
-- too), so that nobody waits for it forever.
SELECT CASE WHEN %(fence)s::bigint IS NULL THEN l.until <= %(now)s::timestamptz
            ELSE l.fence = %(fence)s::bigint END,
       (SELECT count(set_config(s.name, '300s', true)) FROM pg_settings s
        WHERE s.name IN ('idle_in_transaction_session_timeout', 'transaction_timeout'))
FROM {memory}.leases l WHERE l.tenant = %(tenant)s
FOR SHARE OF l;

-- name: tenants
-- Every tenant with memories, in as many steps through the index.
WITH RECURSIVE known AS (
    (SELECT m.tenant FROM {memory}.memories m ORDER BY m.tenant LIMIT 1)
    UNION ALL
    SELECT n.tenant
    FROM known k
    CROSS JOIN LATERAL (
        SELECT m.tenant FROM {memory}.memories m WHERE m.tenant > k.tenant
        ORDER BY m.tenant LIMIT 1
    ) n
)
SELECT k.tenant FROM known k;

-- name: note_seen
-- Set the moment up to which a step has seen everything; never an earlier one.
INSERT INTO {memory}.cycles AS c (tenant, step, seen)
VALUES (%(tenant)s, %(step)s, %(seen)s::timestamptz)
ON CONFLICT (tenant, step) DO UPDATE SET seen = greatest(c.seen, excluded.seen);

-- name: last_cycle
-- The beginning of the tenant's last cycle that ended: all its steps together have seen all before.
SELECT c.seen FROM {memory}.cycles c WHERE c.tenant = %(tenant)s AND c.step = 'cycle';

-- name: claim_cycle
-- Note the beginning of a cycle, unless one has begun since the moment.
INSERT INTO {memory}.cycles AS c (tenant, step, seen)
VALUES (%(tenant)s, 'begun', %(now)s::timestamptz)
ON CONFLICT (tenant, step) DO UPDATE SET seen = excluded.seen
WHERE c.seen <= %(since)s::timestamptz
RETURNING true;

-- name: select_expired
-- The expired memories of a tenant.
SELECT m.id FROM {memory}.memories m
WHERE m.tenant = %(tenant)s AND m.id > %(after)s::bigint AND m.expires_at <= %(now)s::timestamptz
ORDER BY m.id
LIMIT %(limit)s;

-- name: select_rising
-- Memories of short_term that may belong to the project; the rule decides on fewer. Just expired
-- ones count, unless a caller chose their life: the end of their session is then not enough.
SELECT m.id FROM {memory}.memories m
LEFT JOIN LATERAL (
    SELECT * FROM {memory}.usage u WHERE u.tenant = m.tenant AND u.id = m.id LIMIT 1
) u ON true
WHERE m.tenant = %(tenant)s AND m.tier = 'short_term' AND m.id > %(after)s::bigint
  AND m.state IS NULL
  AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s::timestamptz
       OR m.ttl_minutes = %(life)s::float8)
  AND (m.namespace = ANY (%(ended)s::text[])
           AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s::timestamptz)
       OR coalesce(u.access_count, 0) >= %(accesses)s::int
       OR CASE jsonb_typeof(m.value -> 'importance')
          WHEN 'number' THEN (m.value ->> 'importance')::numeric >= %(importance)s::float8::numeric
          ELSE false END)
ORDER BY m.id
LIMIT %(limit)s;

-- part: active
-- The sessions with recent writes. Writes by the end of a session do not count.
active AS MATERIALIZED (
    SELECT DISTINCT m.session, m.value ->> 'project_id' AS project, m.user_id
    FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.updated_at > %(since)s::timestamptz AND m.session IS NOT NULL
      AND m.value -> 'metadata' ->> 'promoted_from' IS DISTINCT FROM 'working'
)

-- part: unread
-- A statement of a session, m, that no model has read at the session's end.
m.tier <> 'short_term' AND m.session IS NOT NULL AND m.speaker IS NOT NULL AND m.state IS NULL
AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s::timestamptz)
AND coalesce(m.value ->> 'memory_type', 'episodic') = 'episodic'
AND NOT EXISTS (
    SELECT FROM {memory}.events e WHERE e.tenant = m.tenant AND e.id = m.id AND e.kind = 'read'
)

-- name: select_unread
-- The first unread statement of each session: of ended sessions, and of sessions without notes that
-- had no statement since.
WITH {part active}, noted AS MATERIALIZED (
    SELECT DISTINCT m.session, m.value ->> 'project_id' AS project, m.user_id
    FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.tier = 'short_term' AND m.session IS NOT NULL
      AND m.value ->> 'memory_type' = 'working' AND m.state IS DISTINCT FROM 'quarantined'
)
SELECT u.first
FROM (
    SELECT min(m.id) AS first, m.session, m.value ->> 'project_id' AS project, m.user_id
    FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND {part unread}
    GROUP BY m.session, m.value ->> 'project_id', m.user_id
) u
WHERE u.first > %(after)s::bigint
  AND NOT EXISTS (
      SELECT FROM noted n
      WHERE n.session = u.session AND n.user_id IS NOT DISTINCT FROM u.user_id
        AND n.project IS NOT DISTINCT FROM u.project
  )
  AND (EXISTS (
           SELECT FROM unnest(%(sessions)s::text[], %(projects)s::text[], %(users)s::text[])
                           AS w (session, project, user_id)
           WHERE w.session = u.session AND w.project = coalesce(u.project, '')
             AND w.user_id IS NOT DISTINCT FROM u.user_id
       )
       OR NOT EXISTS (
           SELECT FROM active a
           WHERE a.session = u.session AND a.user_id IS NOT DISTINCT FROM u.user_id
             AND a.project IS NOT DISTINCT FROM u.project
       ))
ORDER BY u.first
LIMIT %(limit)s;

-- name: session_said
-- The statements of a session that no model has read at an end of it.
SELECT m.id FROM {memory}.memories m
WHERE m.tenant = %(tenant)s AND m.session = %(session)s AND {part unread} AND {part seen}
  AND (%(projects)s::text[] IS NULL
       OR coalesce(m.value ->> 'project_id', '') = ANY (%(projects)s::text[]))
ORDER BY m.id;

-- name: record_reads
-- Note that a model has read a session's statements, which are not read again.
INSERT INTO {memory}.events (tenant, event, kind, id, at, detail)
SELECT %(tenant)s, w.event, 'read', w.id, %(now)s::timestamptz,
       jsonb_build_object('reasons', jsonb_build_array(%(reason)s::text))
FROM unnest(%(ids)s::bigint[], %(events)s::text[]) WITH ORDINALITY AS w (id, event, ord)
ON CONFLICT (tenant, event) DO NOTHING;

-- name: read_before
-- Those of these statements that a model has read.
SELECT e.id
FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS w (id, ord)
CROSS JOIN LATERAL (
    SELECT e.id FROM {memory}.events e
    WHERE e.tenant = %(tenant)s AND e.id = w.id AND e.kind = 'read' LIMIT 1
) e
WHERE {few};

-- name: idle_sessions
-- The places of notes of sessions that nobody ended, without a write, and without a read of a note,
-- since. Memories that the end of a session left in working do not count.
WITH noted AS MATERIALIZED (
    SELECT m.namespace, max(m.session) AS session, max(m.value ->> 'project_id') AS project,
           max(m.user_id) AS user_id
    FROM {memory}.memories m
    LEFT JOIN LATERAL (
        SELECT * FROM {memory}.usage u WHERE u.tenant = m.tenant AND u.id = m.id LIMIT 1
    ) u ON true
    WHERE m.tenant = %(tenant)s AND m.tier = 'short_term' AND m.ttl_minutes IS NULL
      AND m.value ? 'memory_type' AND m.state IS DISTINCT FROM 'quarantined'
    GROUP BY m.namespace
    HAVING max(greatest(m.updated_at, u.last_accessed_at)) <= %(since)s::timestamptz
), {part active}
SELECT n.namespace FROM noted n
WHERE NOT EXISTS (
    SELECT FROM active a
    WHERE a.session = n.session AND a.project IS NOT DISTINCT FROM n.project
      AND a.user_id IS NOT DISTINCT FROM n.user_id
)
ORDER BY n.namespace;

-- name: select_changed
-- Current memories of working and long_term that were written, rose or began to be true since the
-- step last saw everything.
SELECT m.id FROM {memory}.memories m
CROSS JOIN (
    SELECT coalesce((
        SELECT c.seen FROM {memory}.cycles c WHERE c.tenant = %(tenant)s AND c.step = %(step)s
    ), '-infinity') AS seen
) c
WHERE m.tenant = %(tenant)s AND m.tier IN ('working', 'long_term') AND m.id > %(after)s::bigint
  AND m.state IS NULL AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s::timestamptz)
  AND (m.valid_to IS NULL OR m.valid_to > %(now)s::timestamptz)
  AND (%(memory_types)s::text[] IS NULL
       OR coalesce(m.value ->> 'memory_type', 'episodic') = ANY (%(memory_types)s::text[]))
  AND coalesce(m.valid_from, m.occurred_at, m.created_at) <= %(now)s::timestamptz
  AND (m.updated_at > c.seen OR coalesce(m.valid_from, m.occurred_at) > c.seen OR m.id IN (
      SELECT e.id FROM {memory}.events e
      WHERE e.tenant = %(tenant)s AND e.kind = 'risen' AND e.undone_at IS NULL
        AND e.at > (SELECT s.seen FROM {memory}.cycles s
                    WHERE s.tenant = %(tenant)s AND s.step = %(step)s)
  ))
ORDER BY m.id
LIMIT %(limit)s;

-- name: select_outdated
-- Current memories that came, directly or not, from a memory superseded since the step last saw
-- everything, except by way of the superseding one.
WITH RECURSIVE below AS (
    SELECT s.id, false AS came
    FROM {memory}.memories s
    WHERE s.tenant = %(tenant)s AND s.state = 'superseded' AND s.valid_to <= %(now)s::timestamptz
      AND greatest(s.state_at, s.valid_to) > coalesce((
          SELECT c.seen FROM {memory}.cycles c WHERE c.tenant = %(tenant)s AND c.step = %(step)s
      ), '-infinity')
    UNION
    SELECT l.id, true
    FROM below b
    CROSS JOIN LATERAL (
        SELECT l.id FROM {memory}.lineage l
        WHERE l.tenant = %(tenant)s AND l.source = b.id AND {part otherwise} OFFSET 0
    ) l
)
SELECT m.id
FROM (SELECT DISTINCT b.id FROM below b WHERE b.came AND b.id > %(after)s::bigint) b
CROSS JOIN LATERAL (
    SELECT m.id FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.id = b.id AND m.state IS NULL
      AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s::timestamptz)
      AND (m.valid_to IS NULL OR m.valid_to > %(now)s::timestamptz) LIMIT 1
) m
ORDER BY m.id
LIMIT %(limit)s;

-- name: outdated_origins
-- The places of these memories, and the nearest superseded memory from which each came. A chain of
-- more than a hundred steps is not followed further.
SELECT m.namespace, m.key, o.namespace, o.key
FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS w (id, ord)
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m WHERE m.tenant = %(tenant)s AND m.id = w.id LIMIT 1
) m
CROSS JOIN LATERAL (
    WITH RECURSIVE above AS (
        SELECT w.id, 0 AS depth
        UNION
        SELECT l.source, a.depth + 1
        FROM above a
        CROSS JOIN LATERAL (
            SELECT l.source FROM {memory}.lineage l
            WHERE l.tenant = %(tenant)s AND l.id = a.id AND {part otherwise} OFFSET 0
        ) l
        WHERE a.depth < 100
    )
    SELECT s.namespace, s.key
    FROM above a
    CROSS JOIN LATERAL (
        SELECT s.namespace, s.key FROM {memory}.memories s
        WHERE s.tenant = %(tenant)s AND s.id = a.id AND s.state = 'superseded'
          AND s.valid_to <= %(now)s::timestamptz LIMIT 1
    ) s
    WHERE a.depth > 0
    ORDER BY a.depth, s.namespace, s.key
    LIMIT 1
) o
WHERE {few}
ORDER BY w.ord;

-- name: select_fading
-- Memories of a tenant whose strength was computed some time ago.
SELECT u.id FROM {memory}.usage u
WHERE u.tenant = %(tenant)s AND u.id > %(after)s::bigint AND u.strength > 0
  AND u.strength_at <= %(before)s::timestamptz
ORDER BY u.id
LIMIT %(limit)s;

-- part: for_all
-- The namespace of a memory m without the label of its user.
CASE WHEN m.user_id IS NULL THEN m.namespace
     ELSE regexp_replace(m.namespace, '(^|\.)@[^.]*\.$', '\1') END

-- part: home
-- The home of a memory m, within which it is compared: its namespace, without the last label if
-- that is its user's, and with `_` for the label of its own session before that. A label that names
-- its project stays, whatever the session is called.
(SELECT CASE WHEN split_part(n.name, '.', -2) IN (
         m.session, replace(replace(m.session, '%', '%25'), '.', '%2E'),
         CASE m.session WHEN '_' THEN '%5F' END, CASE WHEN m.session IS NULL THEN '_' END)
      AND (split_part(n.name, '.', 2) <> ''
           OR m.session IS NOT NULL AND m.value ->> 'project_id' IS DISTINCT FROM m.session)
     THEN left(n.name, -1 - length(split_part(n.name, '.', -2)))
     ELSE n.name END
 FROM (SELECT {part for_all} AS name OFFSET 0) n)

-- part: kin
-- A memory m is compared with memories of the same home, type and user.
({part home}) || chr(1) || coalesce(m.value ->> 'memory_type', 'episodic')
    || coalesce(chr(1) || m.user_id, '')

-- part: after_home
-- The prefix of the namespaces of the home of o, and of all below it.
CASE o.home WHEN '' THEN repeat(chr(1114111), 101) ELSE left(o.home, -1) || '/' END

-- name: stored_memories
-- The columns of consolidate.steps.Stored, by which a step decides.
SELECT m.id, m.namespace, m.key, m.tier::text, m.state, m.value, m.created_at, m.updated_at,
       m.session, m.occurred_at, m.valid_from, m.valid_to,
       coalesce(u.access_count, 0), {part home}, m.user_id, m.turn
FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS w (id, ord)
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m WHERE m.tenant = %(tenant)s AND m.id = w.id LIMIT 1
) m
LEFT JOIN LATERAL (
    SELECT * FROM {memory}.usage u WHERE u.tenant = %(tenant)s AND u.id = w.id LIMIT 1
) u ON true
WHERE {few}
ORDER BY m.id;

-- name: near_by_vector
-- For each of these, the nearest of its home, type and user by the cosine of a field that both
-- have, whatever the metric of searches is. Exact: one index has the vectors of a home, in tiers
-- where that has no more than `exact`.
WITH homes AS MATERIALIZED (
    SELECT o.home, array_agg(o.id) AS ids
    FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS w (id, ord)
    CROSS JOIN LATERAL (
        SELECT m.id, {part home} AS home
        FROM {memory}.memories m WHERE m.tenant = %(tenant)s AND m.id = w.id LIMIT 1
    ) o
    WHERE {few}
    GROUP BY o.home
), scopes AS MATERIALIZED (
    SELECT i.id, o.home, array_agg(t.tier) AS tiers
    FROM homes o
    CROSS JOIN unnest(ARRAY['working', 'long_term']::{memory}.tier[]) AS t (tier)
    CROSS JOIN LATERAL (
        SELECT count(*) AS vectors FROM (
            SELECT FROM {memory}.vectors v
            WHERE v.tenant = %(tenant)s AND v.tier = t.tier
              AND v.namespace >= o.home AND v.namespace < {part after_home}
            LIMIT %(exact)s::int + 1
        ) few
    ) c
    CROSS JOIN LATERAL unnest(o.ids) AS i (id)
    WHERE c.vectors <= %(exact)s::int
    GROUP BY i.id, o.home
)
SELECT s.id, n.id, max(1 - n.distance)
FROM scopes s
CROSS JOIN LATERAL (
    SELECT m.id, s.home, m.namespace, m.tier, m.user_id,
           coalesce(m.value ->> 'memory_type', 'episodic') AS memory_type
    FROM {memory}.memories m WHERE m.tenant = %(tenant)s AND m.id = s.id LIMIT 1
) o
CROSS JOIN LATERAL (
    SELECT c.id, c.distance
    FROM (
        SELECT v.id, v.tier, (own.embedding <=> v.embedding) + 0 AS distance
        FROM {memory}.vectors own
        CROSS JOIN unnest(s.tiers) AS t (tier)
        JOIN {memory}.vectors v
          ON v.tenant = %(tenant)s AND v.tier = t.tier AND v.namespace >= o.home
         AND v.namespace < {part after_home} AND v.field = own.field AND v.id <> o.id
        WHERE own.tenant = %(tenant)s AND own.namespace = o.namespace AND own.id = o.id
          AND own.tier = o.tier AND (NOT %(same_tier)s::boolean OR t.tier = o.tier)
        ORDER BY distance, v.id
    ) c
    CROSS JOIN LATERAL (
        SELECT FROM {memory}.memories m
        WHERE m.tenant = %(tenant)s AND m.id = c.id AND m.tier = c.tier
          AND (m.state IS NULL OR m.state = %(also)s::text)
          AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s::timestamptz)
          AND coalesce(m.value ->> 'memory_type', 'episodic') = o.memory_type
          AND {part home} = o.home AND m.user_id IS NOT DISTINCT FROM o.user_id
        LIMIT 1
    ) k
    WHERE c.distance <> 'NaN'
    ORDER BY c.distance, c.id
    LIMIT %(limit)s
) n
GROUP BY s.id, n.id
ORDER BY s.id, n.id;

-- name: cosines
-- The cosine of each pair in the field in which it is nearest, if both have one.
SELECT w.id, w.other, max(1 - (v.embedding <=> n.embedding))
FROM unnest(%(ids)s::bigint[], %(others)s::bigint[]) WITH ORDINALITY AS w (id, other, ord)
CROSS JOIN LATERAL (
    SELECT m.namespace, m.tier FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.id = w.id LIMIT 1
) o
CROSS JOIN LATERAL (
    SELECT m.namespace, m.tier FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.id = w.other LIMIT 1
) k
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.vectors v
    WHERE v.tenant = %(tenant)s AND v.namespace = o.namespace AND v.id = w.id AND v.tier = o.tier
    OFFSET 0
) v
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.vectors n
    WHERE n.tenant = %(tenant)s AND n.namespace = k.namespace AND n.id = w.other
      AND n.tier = k.tier AND n.field = v.field
    OFFSET 0
) n
WHERE {few} AND (v.embedding <=> n.embedding) <> 'NaN'
GROUP BY w.id, w.other
ORDER BY w.id, w.other;

-- name: near_by_words
-- The same by the share of common words in all words of two memories. Candidates share a rare word:
-- the rarest first, as many words as lead to `looked_at` memories. A word is common if it leads to
-- more by itself, or to twice as many in the tenant. Memories that share two of a memory's three
-- rarest common words are candidates too, as far as they are among ten times as many in the tenant.
-- The newest 1,000 memories of the tenant tell how rare common words are, and words that they show
-- to be common are not looked up. The words of one batch are looked up once. Current and other
-- memories have separate counts. There are no joins: whatever the planner believes of these few
-- rows, each step is an index scan for each of them.
WITH size AS MATERIALIZED (
    SELECT count(*)::float8 AS memories FROM (
        SELECT FROM {memory}.memories m
        WHERE m.tenant = %(tenant)s AND m.tier IN ('working', 'long_term') LIMIT 50000
    ) few
), mine AS MATERIALIZED (
    SELECT o.id, o.kin, o.words
    FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS w (id, ord)
    CROSS JOIN LATERAL (
        SELECT m.id, {part kin} AS kin, tsvector_to_array(m.lexemes) AS words
        FROM {memory}.memories m WHERE m.tenant = %(tenant)s AND m.id = w.id LIMIT 1
    ) o
    WHERE {few}
), sought AS MATERIALIZED (
    SELECT l.lexeme, array_agg(l.id) FILTER (WHERE l.id IS NOT NULL) AS ids,
           array_agg(l.kin) FILTER (WHERE l.id IS NOT NULL) AS kins,
           count(*) FILTER (WHERE l.id IS NULL) AS seen
    FROM (
        SELECT unnest(o.words) AS lexeme, o.kin, o.id FROM mine o
        UNION ALL
        SELECT unnest(s.words), NULL, NULL
        FROM (
            SELECT tsvector_to_array(m.lexemes) AS words
            FROM {memory}.memories m
            WHERE m.tenant = %(tenant)s AND m.tier IN ('working', 'long_term')
            ORDER BY m.updated_at DESC LIMIT 1000
        ) s
    ) l
    WHERE l.lexeme <> chr(1) || %(tenant)s::text
    GROUP BY l.lexeme
    HAVING count(l.id) > 0
), found AS MATERIALIZED (
    SELECT l.lexeme, o.id, o.kin, f.others, l.seen,
           coalesce(cardinality(f.others) <= %(looked_at)s::int, false) AS rare
    FROM sought l
    CROSS JOIN size z
    LEFT JOIN LATERAL (
        SELECT g.kin, g.others
        FROM (
            SELECT c.kin, array_agg(c.id) AS others, sum(count(*)) OVER () AS visited
            FROM (
                SELECT m.id, {part kin} AS kin
                FROM [owner: {memory}.memories m
                WHERE m.lexemes @@ ({tenant_lexeme} || {lexeme} || ')')::tsquery
                  AND (m.tenant || '') = %(tenant)s | walled: {memory}.with_words(
                    NULL, ({tenant_lexeme} || {lexeme} || ')')::tsquery, NULL, NULL,
                    8 * %(looked_at)s::int
                ) m
                WHERE m.tenant = %(tenant)s]
                  AND m.tier IN ('working', 'long_term')
                  AND (m.state IS NULL OR m.state = %(also)s::text)
                  AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s::timestamptz)
                  AND l.seen * z.memories <= 2000 * %(looked_at)s::int
                LIMIT 2 * %(looked_at)s::int + 1
            ) c
            GROUP BY c.kin
        ) g
        WHERE g.visited <= 2 * %(looked_at)s::int
    ) f ON true
    CROSS JOIN LATERAL unnest(l.ids, l.kins) AS o (id, kin)
    WHERE f.kin IS NULL OR f.kin = o.kin
), rare AS MATERIALIZED (
    SELECT r.id, r.others
    FROM (
        SELECT f.id, f.others, sum(cardinality(f.others)) OVER (
            PARTITION BY f.id ORDER BY cardinality(f.others), f.lexeme ROWS UNBOUNDED PRECEDING
        ) AS looked_at
        FROM found f WHERE f.rare
    ) r
    WHERE r.looked_at <= %(looked_at)s::int
), together AS MATERIALIZED (
    SELECT c.id, c.kin, array_agg(c.word ORDER BY c.place) AS words
    FROM (
        SELECT l.id, l.kin, {lexeme} AS word,
               row_number() OVER (PARTITION BY l.id ORDER BY l.seen, l.lexeme) AS place
        FROM found l WHERE NOT l.rare
    ) c
    WHERE c.place <= 3
    GROUP BY c.id, c.kin
    HAVING count(*) > 1
), pairs AS MATERIALIZED (
    SELECT p.id, array_agg(DISTINCT p.other) AS others
    FROM (
        SELECT r.id, unnest(r.others) AS other FROM rare r
        UNION ALL
        SELECT t.id, f.id
        FROM together t
        CROSS JOIN LATERAL (
            SELECT ({tenant_lexeme} || t.words[1] || ' & ( ' || t.words[2]
                    || coalesce(' | ' || t.words[3] || ' ) | ' || t.words[2] || ' & '
                                || t.words[3], ' )') || ' )')::tsquery AS words OFFSET 0
        ) q
        CROSS JOIN LATERAL (
            SELECT v.id
            FROM (
                SELECT m.id, {part kin} AS kin
                FROM [owner: {memory}.memories m
                WHERE m.lexemes @@ q.words AND (m.tenant || '') = %(tenant)s | walled: {memory}.with_words(
                    NULL, q.words, NULL, NULL, 40 * %(looked_at)s::int
                ) m
                WHERE m.tenant = %(tenant)s]
                  AND m.tier IN ('working', 'long_term')
                  AND (m.state IS NULL OR m.state = %(also)s::text)
                  AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s::timestamptz)
                LIMIT 10 * %(looked_at)s::int
            ) v
            WHERE v.kin = t.kin
            LIMIT 2 * %(looked_at)s::int
        ) f
    ) p
    WHERE p.id <> p.other
    GROUP BY p.id
)
SELECT p.id, n.other, n.overlap
FROM pairs p
CROSS JOIN LATERAL (
    SELECT m.tier, array_remove(tsvector_to_array(m.lexemes), chr(1) || %(tenant)s::text) AS words
    FROM {memory}.memories m WHERE m.tenant = %(tenant)s AND m.id = p.id LIMIT 1
) o
CROSS JOIN LATERAL (
    SELECT k.id AS other, s.overlap,
           row_number() OVER (PARTITION BY k.state IS NULL ORDER BY s.overlap DESC, k.id) AS place
    FROM unnest(p.others) AS w (id)
    CROSS JOIN LATERAL (
        SELECT m.id, m.tier, m.state, m.lexemes
        FROM {memory}.memories m WHERE m.tenant = %(tenant)s AND m.id = w.id LIMIT 1
    ) k
    CROSS JOIN LATERAL (
        -- What is left without the words of the one tells how many of them the other has.
        SELECT length(k.lexemes) - length(ts_delete(k.lexemes, o.words)) AS common OFFSET 0
    ) c
    CROSS JOIN LATERAL (
        SELECT c.common::float8 / (cardinality(o.words) + length(k.lexemes) - 1 - c.common)
               AS overlap OFFSET 0
    ) s
    WHERE (NOT %(same_tier)s::boolean OR k.tier = o.tier)
      AND s.overlap >= %(overlap)s::float8
) n
WHERE n.place <= %(limit)s
ORDER BY p.id, n.overlap DESC, n.other;

-- name: undone_pairs
-- Moves of a kind that were rolled back and are not made again, with their memories. A move that
-- ended because its memory started afresh does not count.
SELECT (w.source)::bigint, e.target
FROM {memory}.events e
CROSS JOIN LATERAL jsonb_array_elements_text(
    coalesce(e.detail -> 'sources', jsonb_build_array(e.id))) AS w (source)
WHERE e.tenant = %(tenant)s AND e.undone_at IS NOT NULL AND e.kind = %(kind)s
  AND NOT e.detail ? 'anew'
  AND (e.target = ANY (%(ids)s::bigint[]) OR e.id = ANY (%(ids)s::bigint[])
       OR (w.source)::bigint = ANY (%(ids)s::bigint[]));

-- name: known_moves
-- Those of these events that exist already.
SELECT e.event, e.detail -> 'sources' FROM {memory}.events e
WHERE e.tenant = %(tenant)s AND e.event = ANY (%(events)s::text[]);

-- name: hold_memories
-- Once the keys are locked: the memories as they are now, locked until the end.
SELECT m.id, m.updated_at, m.tier::text, m.state,
       m.expires_at IS NULL OR m.expires_at > %(alive_at)s::timestamptz AS alive,
       EXISTS (
           SELECT FROM {memory}.lineage l
        WHERE l.tenant = %(tenant)s AND l.source = m.id AND NOT l.derived
       ) AS lived_on
FROM (SELECT DISTINCT w.id FROM unnest(%(ids)s::bigint[]) AS w (id) ORDER BY w.id) w
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.id = w.id LIMIT 1 FOR UPDATE OF m
) m;

-- name: record_rises
-- Move memories from short_term to working, with its life. The event keeps their old one.
WITH given AS MATERIALIZED (
    SELECT m.id, w.event, w.reason, m.expires_at, m.ttl_minutes
    FROM unnest(%(ids)s::bigint[], %(events)s::text[], %(reasons)s::text[])
             WITH ORDINALITY AS w (id, event, reason, ord)
    CROSS JOIN LATERAL (
        SELECT * FROM {memory}.memories m
        WHERE m.tenant = %(tenant)s AND m.id = w.id AND m.tier = 'short_term' LIMIT 1
    ) m
    WHERE {few}
), moved AS (
    UPDATE {memory}.memories m
    SET tier = 'working', ttl_minutes = {part life},
        expires_at = %(now)s::timestamptz + {part life} * interval '1 minute'
    FROM given g
    WHERE m.tenant = %(tenant)s AND m.id = g.id AND m.tier = 'short_term'
    RETURNING m.id, m.namespace
), vectors AS (
    UPDATE {memory}.vectors v SET tier = 'working' FROM moved g
    WHERE v.tenant = %(tenant)s AND v.namespace = g.namespace AND v.id = g.id
)
INSERT INTO {memory}.events (tenant, event, kind, id, at, detail)
SELECT %(tenant)s, g.event, 'risen', g.id, %(now)s::timestamptz, jsonb_build_object(
           'reasons', jsonb_build_array(g.reason), 'tier', 'short_term',
           'expires_at', g.expires_at, 'ttl_minutes', g.ttl_minutes)
FROM given g JOIN moved m ON m.id = g.id
ORDER BY g.id;

-- name: undo_rise
-- Move a memory back to its old tier and life, which may be over by now.
WITH past AS MATERIALIZED (
    SELECT e.id, (e.detail ->> 'tier')::{memory}.tier AS tier,
           (e.detail ->> 'expires_at')::timestamptz AS expires_at,
           (e.detail ->> 'ttl_minutes')::float8 AS ttl_minutes
    FROM {memory}.events e WHERE e.tenant = %(tenant)s AND e.event = %(event)s
), moved AS (
    UPDATE {memory}.memories m
    SET tier = p.tier, expires_at = p.expires_at, ttl_minutes = p.ttl_minutes
    FROM past p
    WHERE m.tenant = %(tenant)s AND m.id = p.id AND m.tier = 'working'
    RETURNING m.id, m.namespace, m.tier
), vectors AS (
    UPDATE {memory}.vectors v SET tier = g.tier FROM moved g
    WHERE v.tenant = %(tenant)s AND v.namespace = g.namespace AND v.id = g.id
)
UPDATE {memory}.events e SET undone_at = %(now)s::timestamptz
WHERE e.tenant = %(tenant)s AND e.event = %(event)s;

-- name: record_merges
-- Merge memories into the oldest one with the same content: mark them, record the derivation, hand
-- on their evidence, and keep the oldest one's state, for the way back. There is one event for each
-- oldest one.
WITH given AS MATERIALIZED (
    SELECT w.source, w.target, w.event, w.reason
    FROM unnest(%(ids)s::bigint[], %(targets)s::bigint[], %(events)s::text[],
                %(reasons)s::text[])
             WITH ORDINALITY AS w (source, target, event, reason, ord)
    WHERE {few}
), marked AS (
    UPDATE {memory}.memories m SET state = 'consolidated', state_at = %(now)s::timestamptz
    FROM given g
    WHERE m.tenant = %(tenant)s AND m.id = g.source AND m.state IS NULL
), edges AS (
    INSERT INTO {memory}.lineage (tenant, id, source, event)
    SELECT %(tenant)s, g.target, g.source, g.event FROM given g
), counted AS MATERIALIZED (
    SELECT g.event, g.target, g.source, u.access_count, u.success_count, u.failure_count,
           u.last_accessed_at, u.strength, u.strength_at,
           max(u.strength_at) OVER (PARTITION BY g.event) AS latest
    FROM given g
    CROSS JOIN LATERAL (
        SELECT * FROM {memory}.usage u WHERE u.tenant = %(tenant)s AND u.id = g.source LIMIT 1
    ) u
    -- Evidence that a source with other content handed on meanwhile is not counted twice.
    WHERE NOT EXISTS (
        SELECT FROM {memory}.events e
        WHERE e.tenant = %(tenant)s AND e.target = g.target AND e.undone_at IS NULL
          AND e.detail -> 'sources' @> to_jsonb(g.source)
    )
), handed AS MATERIALIZED (
    SELECT c.event, c.target, sum(c.access_count)::int AS access_count,
           sum(c.success_count)::int AS success_count, sum(c.failure_count)::int AS failure_count,
           max(c.last_accessed_at) AS last_accessed_at, max(c.latest) AS strength_at,
           sum(c.strength * power(0.5, coalesce(
               extract(epoch FROM c.latest - c.strength_at), 0) / 2592000)
               ORDER BY c.source) AS strength
    FROM counted c GROUP BY c.event, c.target
), had AS MATERIALIZED (
    SELECT h.event, to_jsonb(u) AS had
    FROM (SELECT DISTINCT g.event, g.target FROM given g) h
    JOIN {memory}.usage u ON u.tenant = %(tenant)s AND u.id = h.target
), added AS (
    INSERT INTO {memory}.usage AS u
        (tenant, id, access_count, success_count, failure_count, last_accessed_at, strength,
         strength_at)
    SELECT %(tenant)s, h.target, h.access_count, h.success_count, h.failure_count,
           h.last_accessed_at, h.strength, h.strength_at
    FROM handed h
    ORDER BY h.target
    {part added_up}
)
INSERT INTO {memory}.events (tenant, event, kind, id, target, at, detail)
SELECT %(tenant)s, g.event, 'merged', min(g.source), g.target, %(now)s::timestamptz,
       jsonb_build_object(
           'reasons', to_jsonb(array_agg(DISTINCT g.reason)),
           'sources', to_jsonb(array_agg(g.source ORDER BY g.source)),
           'updated_at', min(m.updated_at),
           'handed', coalesce((
               SELECT to_jsonb(h) - 'event' - 'target' FROM handed h WHERE h.event = g.event
           ), '{"access_count": 0, "success_count": 0, "failure_count": 0, "strength": 0}'),
           'had', (SELECT h.had FROM had h WHERE h.event = g.event))
FROM given g
JOIN {memory}.memories m ON m.tenant = %(tenant)s AND m.id = g.target
GROUP BY g.event, g.target
ORDER BY g.target;

-- name: record_supersessions
-- End the truth of memories when their newer ones began to be true, if it had not ended before. The
-- event keeps the end that was known until now.
WITH given AS MATERIALIZED (
    SELECT m.id, w.target, w.event, w.reason, m.valid_to AS had,
           least(m.valid_to, coalesce(t.valid_from, t.occurred_at, t.created_at)) AS valid_to
    FROM unnest(%(ids)s::bigint[], %(targets)s::bigint[], %(events)s::text[], %(reasons)s::text[])
             WITH ORDINALITY AS w (id, target, event, reason, ord)
    CROSS JOIN LATERAL (
        SELECT * FROM {memory}.memories m
        WHERE m.tenant = %(tenant)s AND m.id = w.id AND m.state IS NULL LIMIT 1
    ) m
    CROSS JOIN LATERAL (
        SELECT * FROM {memory}.memories t WHERE t.tenant = %(tenant)s AND t.id = w.target LIMIT 1
    ) t
    WHERE {few}
), marked AS (
    UPDATE {memory}.memories m
    SET valid_to = g.valid_to, state = 'superseded', state_at = %(now)s::timestamptz
    FROM given g WHERE m.tenant = %(tenant)s AND m.id = g.id
)
INSERT INTO {memory}.events (tenant, event, kind, id, target, at, detail)
SELECT %(tenant)s, g.event, 'superseded', g.id, g.target, %(now)s::timestamptz,
       jsonb_build_object('reasons', jsonb_build_array(g.reason), 'valid_to', g.had)
FROM given g
ORDER BY g.id;

-- name: undo_supersession
-- The memory is true again, until its former end, if it had one. If it was retracted or became
-- suspect since, it stays so.
WITH past AS MATERIALIZED (
    SELECT e.id, (e.detail ->> 'valid_to')::timestamptz AS valid_to
    FROM {memory}.events e WHERE e.tenant = %(tenant)s AND e.event = %(event)s
), marked AS (
    UPDATE {memory}.memories m
    SET valid_to = p.valid_to, state = nullif(m.state, 'superseded'),
        state_at = CASE WHEN m.state = 'superseded' THEN NULL ELSE m.state_at END
    FROM past p
    WHERE m.tenant = %(tenant)s AND m.id = p.id
      AND m.state IN ('superseded', 'retracted', 'suspect')
)
UPDATE {memory}.events e SET undone_at = %(now)s::timestamptz
WHERE e.tenant = %(tenant)s AND e.event = %(event)s;

-- name: fade
-- Bring strengths up to date: they halve in 30 days. Returns those that changed.
WITH faded AS (
    UPDATE {memory}.usage u
    SET strength = u.strength * power(0.5, extract(epoch FROM
            %(now)s::timestamptz - u.strength_at) / 2592000),
        strength_at = %(now)s::timestamptz
    FROM (
        SELECT c.id
        FROM (SELECT DISTINCT w.id FROM unnest(%(ids)s::bigint[]) AS w (id) ORDER BY w.id) w
        CROSS JOIN LATERAL (
            SELECT u.id FROM {memory}.usage u WHERE u.tenant = %(tenant)s AND u.id = w.id
            LIMIT 1 FOR UPDATE
        ) c
    ) c
    WHERE u.tenant = %(tenant)s AND u.id = c.id
      AND u.strength_at <= %(before)s::timestamptz
    RETURNING u.id
)
SELECT f.id FROM faded f
UNION ALL
SELECT u.id FROM {memory}.usage u
WHERE u.tenant = %(tenant)s AND u.id = ANY (%(ids)s::bigint[])
  AND u.strength_at = %(now)s::timestamptz;

-- name: session_memories
-- The notes of a session (type `working`, in any tier) and its other memories in short_term;
-- whether each has expired, and whether somebody has read it. Quarantined ones stay until somebody
-- has reviewed them. The project is the empty name if none is given. Memories of other users stay
-- as they are.
SELECT m.id, coalesce(m.expires_at <= %(alive_at)s::timestamptz, false),
       EXISTS (SELECT FROM {memory}.usage u
               WHERE u.tenant = m.tenant AND u.id = m.id AND u.access_count > 0)
FROM (
    SELECT m.tenant, m.id, m.expires_at FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.session = %(session)s
      AND (%(projects)s::text[] IS NULL
           OR coalesce(m.value ->> 'project_id', '') = ANY (%(projects)s::text[]))
      AND (m.value ->> 'memory_type' = 'working' OR m.tier = 'short_term')
      AND m.state IS DISTINCT FROM 'quarantined' AND {part seen}
    UNION
    SELECT m.tenant, m.id, m.expires_at FROM {memory}.memories m
    WHERE m.tenant = %(tenant)s AND m.namespace = ANY (%(namespaces)s::text[])
      AND (m.value ->> 'memory_type' = 'working' OR m.tier = 'short_term')
      AND m.state IS DISTINCT FROM 'quarantined' AND {part seen}
) m
ORDER BY m.id;

-- name: recalled_again
-- Those of these memories that were shown in more than one turn.
SELECT w.id
FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS w (id, ord)
CROSS JOIN LATERAL (
    SELECT min(coalesce(e.root, e.run)) AS one, max(coalesce(e.root, e.run)) AS another
    FROM {memory}.exposures e
    WHERE e.tenant = %(tenant)s AND e.id = w.id AND NOT e.held_out
) e
WHERE {few} AND e.one < e.another;

-- name: select_ended
-- The first note of each of these sessions, of the user to whom that part of it belongs: where the
-- session has its notes, or the project its own.
SELECT f.id
FROM unnest(%(namespaces)s::text[], %(homes)s::text[], %(sessions)s::text[],
            %(projects)s::text[], %(users)s::text[])
         WITH ORDINALITY AS w (namespace, home, session, project, user_id, ord)
CROSS JOIN LATERAL (
    SELECT min(n.id) AS id
    FROM (
        SELECT m.id FROM {memory}.memories m
        WHERE m.tenant = %(tenant)s AND m.tier = 'short_term' AND m.namespace = w.namespace
          AND m.value ->> 'memory_type' = 'working'
          AND m.user_id IS NOT DISTINCT FROM w.user_id
          AND m.state IS DISTINCT FROM 'quarantined'
          AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s::timestamptz)
        UNION ALL
        SELECT m.id FROM {memory}.memories m
        WHERE m.tenant = %(tenant)s AND m.namespace IN (w.home, w.namespace) AND m.session = w.session
          AND coalesce(m.value ->> 'project_id', '') = w.project
          AND m.value ->> 'memory_type' = 'working'
          AND m.user_id IS NOT DISTINCT FROM w.user_id
          AND m.state IS DISTINCT FROM 'quarantined'
          AND (m.expires_at IS NULL OR m.expires_at > %(alive_at)s::timestamptz)
    ) n
) f
WHERE f.id > %(after)s AND {few}
ORDER BY f.id
LIMIT %(limit)s;
