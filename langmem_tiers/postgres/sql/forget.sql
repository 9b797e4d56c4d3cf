-- The statements of forgetting: the choice of rows, their deletion, and the proof. The rules of
-- queries.sql hold here too. All deletions run in one transaction.

-- part: known_row
-- The columns of a memory for forgetting.
m.id, m.tier::text, m.namespace, m.key, m.value, m.state, m.user_id, m.session, m.speaker, m.updated_at

-- name: memories_page
-- The memories of a tenant, a page after an id: all of them, or one user's.
SELECT {part known_row} FROM {memory}.memories m
WHERE m.tenant = %(tenant)s AND m.id > %(after)s
  AND (%(user)s::text IS NULL OR m.user_id = %(user)s::text)
ORDER BY m.id
LIMIT %(limit)s;

-- name: memories_by_id
-- The memories with these ids.
SELECT {part known_row}
FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS w (id, ord)
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.memories m WHERE m.tenant = %(tenant)s AND m.id = w.id LIMIT 1
) m
WHERE {few}
ORDER BY m.id;

-- name: memories_under_key
-- The memories that a key means to the caller: live ones, even if expired, archived ones, and those
-- that were rejected or evicted.
SELECT 'lives', m.id, m.tier::text, m.namespace FROM {memory}.memories m
WHERE m.tenant = %(tenant)s AND m.key = %(key)s AND {part seen}
UNION
SELECT 'archived', a.id, a.tier::text, a.namespace FROM {memory}.archived a
WHERE a.tenant = %(tenant)s AND a.key = %(key)s AND {part seen a}
UNION
SELECT 'gone', e.id, coalesce(e.detail ->> 'tier', 'working'), e.detail ->> 'namespace'
FROM [owner: {memory}.events | walled: {memory}.gone(%(key)s::text)] e
WHERE e.tenant = %(tenant)s AND e.kind IN ('rejected', 'evicted')
  AND e.detail ->> 'key' = %(key)s::text AND e.id IS NOT NULL AND e.detail ? 'namespace'
  AND (e.detail ->> 'user_id' IS NULL OR e.detail ->> 'user_id' = %(user_id)s::text)
ORDER BY 1, 2;

-- name: archived_of_user
-- The archived memories of a user.
SELECT a.id FROM {memory}.archived a
WHERE a.tenant = %(tenant)s AND a.user_id = %(user)s
ORDER BY a.id;

-- name: kin
-- The memories derived from these, and their sources, each with the kind of move.
SELECT l.id, l.source, l.derived, e.kind
FROM (
    SELECT l.* FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS w (id, ord)
    CROSS JOIN LATERAL (
        SELECT l.* FROM {memory}.lineage l
        WHERE l.tenant = %(tenant)s AND l.id = w.id OFFSET 0
    ) l
    WHERE {few}
    UNION
    SELECT l.* FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS w (id, ord)
    CROSS JOIN LATERAL (
        SELECT l.* FROM {memory}.lineage l
        WHERE l.tenant = %(tenant)s AND l.source = w.id OFFSET 0
    ) l
    WHERE {few}
) l
LEFT JOIN LATERAL (
    SELECT e.kind FROM {memory}.events e
    WHERE e.tenant = l.tenant AND e.event = l.event LIMIT 1
) e ON true
ORDER BY l.id, l.source;

-- name: events_page
-- The events of a tenant, a page after a name.
SELECT e.event, e.kind, e.id, e.target, e.detail FROM {memory}.events e
WHERE e.tenant = %(tenant)s AND e.event > %(after)s
ORDER BY e.event
LIMIT %(limit)s;

-- name: turns_of_user
-- The turns of a user.
SELECT DISTINCT e.detail ->> 'turn' FROM {memory}.events e
WHERE e.tenant = %(tenant)s AND e.event >= 'turn/' AND e.event < 'turn0'
  AND e.detail ->> 'user_id' = %(user)s::text;

-- name: states_page
-- The states of a tenant, a page after one.
SELECT s.owner, s.kind, s.name, s.value FROM {memory}.states s
WHERE s.tenant = %(tenant)s
  AND (s.owner, s.kind, s.name) > (%(owner)s::text, %(kind)s::text, %(name)s::text)
ORDER BY s.owner, s.kind, s.name
LIMIT %(limit)s;

-- name: intentions_page
-- The triggers and holders of a tenant's intentions, a page after one.
SELECT i.id, i.trigger, i.words, i.name, i.holder FROM {memory}.intentions i
WHERE i.tenant = %(tenant)s AND i.id > %(after)s
ORDER BY i.id
LIMIT %(limit)s;

-- name: exposures_page
-- The names in exposures of a tenant, a page after one.
SELECT x.run, x.id, x.root, x.project, x.session, x.settled_by, x.user_id FROM {memory}.exposures x
WHERE x.tenant = %(tenant)s AND (x.run, x.id) > (%(run)s::text, %(after)s::bigint)
ORDER BY x.run, x.id
LIMIT %(limit)s;

-- name: archived_page
-- The names in archived memories of a tenant, a page after one.
SELECT a.id, a.namespace, a.key, a.user_id FROM {memory}.archived a
WHERE a.tenant = %(tenant)s AND a.id > %(after)s
ORDER BY a.id
LIMIT %(limit)s;

-- name: sessions_shown
-- The sessions whose runs were shown these memories, or anything of that user.
SELECT DISTINCT x.session FROM {memory}.exposures x
WHERE x.tenant = %(tenant)s AND x.session IS NOT NULL
  AND (x.id = ANY (%(ids)s::bigint[]) OR x.user_id = %(user)s::text);

-- name: sessions_of_tenant
-- All sessions named by a tenant's memories, runs and turns.
SELECT m.session FROM {memory}.memories m WHERE m.tenant = %(tenant)s AND m.session IS NOT NULL
UNION
SELECT x.session FROM {memory}.exposures x WHERE x.tenant = %(tenant)s AND x.session IS NOT NULL
UNION
SELECT e.detail ->> 'session_id' FROM {memory}.events e
WHERE e.tenant = %(tenant)s AND e.event >= 'turn/' AND e.event < 'turn0'
  AND e.detail ->> 'session_id' IS NOT NULL;

-- part: tells
-- True if the row a of the audit log has more than the fact that something was forgotten.
(a.told IS NOT NULL AND a.verb NOT IN ('forget', 'receipt'))

-- name: traces_left
-- The rows about these memories, or of that user, by table. The values of a row are not searched.
SELECT 'memories', m.id FROM {memory}.memories m
WHERE m.tenant = %(tenant)s AND m.id = ANY (%(ids)s::bigint[])
UNION ALL
SELECT 'vectors', v.id FROM {memory}.vectors v
WHERE v.tenant = %(tenant)s AND v.id = ANY (%(ids)s::bigint[])
UNION ALL
SELECT 'usage', u.id FROM {memory}.usage u
WHERE u.tenant = %(tenant)s AND u.id = ANY (%(ids)s::bigint[])
UNION ALL
SELECT 'exposures', x.id FROM {memory}.exposures x
WHERE x.tenant = %(tenant)s AND (x.id = ANY (%(ids)s::bigint[]) OR x.user_id = %(user)s::text)
UNION ALL
SELECT 'lineage', CASE WHEN l.id = ANY (%(ids)s::bigint[]) THEN l.id ELSE l.source END
FROM {memory}.lineage l
WHERE l.tenant = %(tenant)s
  AND (l.id = ANY (%(ids)s::bigint[]) OR l.source = ANY (%(ids)s::bigint[]))
UNION ALL
SELECT 'intentions', i.id FROM {memory}.intentions i
WHERE i.tenant = %(tenant)s AND i.id = ANY (%(ids)s::bigint[])
UNION ALL
SELECT 'archived', a.id FROM {memory}.archived a
WHERE a.tenant = %(tenant)s AND a.id = ANY (%(ids)s::bigint[])
UNION ALL
SELECT 'recalls', r.number FROM {memory}.recalls r
WHERE r.tenant = %(tenant)s AND (r.ids && %(ids)s::bigint[] OR r.user_id = %(user)s::text)
UNION ALL
SELECT 'audit', a.id FROM {memory}.audit a
WHERE a.tenant = %(tenant)s AND {part tells} AND a.memories && %(ids)s::bigint[];

-- name: events_left
-- The events that name one of these memories.
SELECT e.event FROM {memory}.events e
WHERE e.tenant = %(tenant)s
  AND (e.id = ANY (%(ids)s::bigint[]) OR e.target = ANY (%(ids)s::bigint[]))
ORDER BY e.event;

-- name: users_left
-- The owners of rows, by table.
SELECT 'memories', m.user_id FROM {memory}.memories m
WHERE m.tenant = %(tenant)s AND m.user_id IS NOT NULL
UNION
SELECT 'exposures', x.user_id FROM {memory}.exposures x
WHERE x.tenant = %(tenant)s AND x.user_id IS NOT NULL
UNION
SELECT 'archived', a.user_id FROM {memory}.archived a
WHERE a.tenant = %(tenant)s AND a.user_id IS NOT NULL
UNION
SELECT 'audit', a.told ->> 'user' FROM {memory}.audit a
WHERE a.tenant = %(tenant)s AND a.told ->> 'user' IS NOT NULL
UNION
SELECT 'events', e.detail ->> 'user_id' FROM {memory}.events e
WHERE e.tenant = %(tenant)s AND e.detail ->> 'user_id' IS NOT NULL
UNION
SELECT 'recalls', r.user_id FROM {memory}.recalls r
WHERE r.tenant = %(tenant)s AND r.user_id IS NOT NULL;

-- name: tenant_left
-- The number of rows of a tenant, by table.
SELECT 'memories', count(*) FROM {memory}.memories t WHERE t.tenant = %(tenant)s
UNION ALL SELECT 'vectors', count(*) FROM {memory}.vectors t WHERE t.tenant = %(tenant)s
UNION ALL SELECT 'usage', count(*) FROM {memory}.usage t WHERE t.tenant = %(tenant)s
UNION ALL SELECT 'exposures', count(*) FROM {memory}.exposures t WHERE t.tenant = %(tenant)s
UNION ALL SELECT 'lineage', count(*) FROM {memory}.lineage t WHERE t.tenant = %(tenant)s
UNION ALL SELECT 'events', count(*) FROM {memory}.events t WHERE t.tenant = %(tenant)s
UNION ALL SELECT 'states', count(*) FROM {memory}.states t WHERE t.tenant = %(tenant)s
UNION ALL SELECT 'intentions', count(*) FROM {memory}.intentions t WHERE t.tenant = %(tenant)s
UNION ALL SELECT 'archived', count(*) FROM {memory}.archived t WHERE t.tenant = %(tenant)s
UNION ALL SELECT 'archives', count(*) FROM {memory}.archives t WHERE t.tenant = %(tenant)s
UNION ALL SELECT 'cycles', count(*) FROM {memory}.cycles t WHERE t.tenant = %(tenant)s
UNION ALL SELECT 'leases', count(*) FROM {memory}.leases t WHERE t.tenant = %(tenant)s
UNION ALL SELECT 'tenant_sizes', count(*) FROM {memory}.tenant_sizes t WHERE t.tenant = %(tenant)s
UNION ALL SELECT 'recalls', count(*) FROM {memory}.recalls t WHERE t.tenant = %(tenant)s
UNION ALL SELECT 'audit', count(*) FROM {memory}.audit a WHERE a.tenant = %(tenant)s AND {part tells}
UNION ALL SELECT 'imports', count(*) FROM {memory}.imports t WHERE t.tenant = %(tenant)s;

-- name: forget_memories
-- Delete memories with all rows that depend on them, and that user's exposures. Memories that lived
-- on in one of them and stay are current again. Returns the number of deleted rows, by table.
WITH shown AS MATERIALIZED (
    SELECT x.run, x.id FROM {memory}.exposures x
    WHERE x.tenant = %(tenant)s AND (x.id = ANY (%(ids)s::bigint[]) OR x.user_id = %(user)s::text)
    ORDER BY x.run, x.id FOR UPDATE OF x
), exposures AS (
    DELETE FROM {memory}.exposures x USING shown s
    WHERE x.tenant = %(tenant)s AND x.run = s.run AND x.id = s.id
    RETURNING 1
), counters AS MATERIALIZED (
    SELECT u.id FROM {memory}.usage u
    WHERE u.tenant = %(tenant)s AND u.id = ANY (%(ids)s::bigint[])
      AND (SELECT count(*) FROM shown) >= 0
    ORDER BY u.id FOR UPDATE OF u
), usage AS (
    DELETE FROM {memory}.usage u USING counters c WHERE u.tenant = %(tenant)s AND u.id = c.id
    RETURNING 1
), memories AS (
    DELETE FROM {memory}.memories m WHERE m.tenant = %(tenant)s AND m.id = ANY (%(ids)s::bigint[])
    RETURNING 1
), vectors AS (
    DELETE FROM {memory}.vectors v WHERE v.tenant = %(tenant)s AND v.id = ANY (%(ids)s::bigint[])
    RETURNING 1
), edges AS (
    DELETE FROM {memory}.lineage l
    WHERE l.tenant = %(tenant)s
      AND (l.id = ANY (%(ids)s::bigint[]) OR l.source = ANY (%(ids)s::bigint[]))
    RETURNING l.id, l.source, l.derived
), freed AS (
    UPDATE {memory}.memories m SET state = NULL, state_at = NULL FROM edges l
    WHERE m.tenant = %(tenant)s AND m.id = l.source AND NOT l.derived
      AND m.state = 'consolidated' AND l.id = ANY (%(ids)s::bigint[])
      AND m.id <> ALL (%(ids)s::bigint[])
), intentions AS (
    DELETE FROM {memory}.intentions i
    WHERE i.tenant = %(tenant)s AND i.id = ANY (%(ids)s::bigint[])
    RETURNING 1
), needed AS (
    UPDATE {memory}.intentions i
    SET needs = ARRAY(SELECT n.id FROM unnest(i.needs) AS n (id)
                      WHERE n.id <> ALL (%(ids)s::bigint[]))
    WHERE i.tenant = %(tenant)s AND i.needs && %(ids)s::bigint[]
      AND i.id <> ALL (%(ids)s::bigint[])
), archived AS (
    DELETE FROM {memory}.archived a WHERE a.tenant = %(tenant)s AND a.id = ANY (%(ids)s::bigint[])
    RETURNING 1
)
SELECT 'memories', count(*) FROM memories
UNION ALL SELECT 'vectors', count(*) FROM vectors
UNION ALL SELECT 'usage', count(*) FROM usage
UNION ALL SELECT 'exposures', count(*) FROM exposures
UNION ALL SELECT 'lineage', count(*) FROM edges
UNION ALL SELECT 'intentions', count(*) FROM intentions
UNION ALL SELECT 'archived', count(*) FROM archived;

-- name: forget_tenant
-- Delete all rows of a tenant. Returns their number, by table.
WITH memories AS (
    DELETE FROM {memory}.memories t WHERE t.tenant = %(tenant)s RETURNING 1
), vectors AS (
    DELETE FROM {memory}.vectors t WHERE t.tenant = %(tenant)s RETURNING 1
), usage AS (
    DELETE FROM {memory}.usage t WHERE t.tenant = %(tenant)s RETURNING 1
), exposures AS (
    DELETE FROM {memory}.exposures t WHERE t.tenant = %(tenant)s RETURNING 1
), lineage AS (
    DELETE FROM {memory}.lineage t WHERE t.tenant = %(tenant)s RETURNING 1
), events AS (
    DELETE FROM {memory}.events t WHERE t.tenant = %(tenant)s RETURNING 1
), states AS (
    DELETE FROM {memory}.states t WHERE t.tenant = %(tenant)s RETURNING 1
), intentions AS (
    DELETE FROM {memory}.intentions t WHERE t.tenant = %(tenant)s RETURNING 1
), archived AS (
    DELETE FROM {memory}.archived t WHERE t.tenant = %(tenant)s RETURNING 1
), archives AS (
    DELETE FROM {memory}.archives t WHERE t.tenant = %(tenant)s RETURNING 1
), cycles AS (
    DELETE FROM {memory}.cycles t WHERE t.tenant = %(tenant)s RETURNING 1
), leases AS (
    DELETE FROM {memory}.leases t WHERE t.tenant = %(tenant)s RETURNING 1
), sizes AS (
    DELETE FROM {memory}.tenant_sizes t WHERE t.tenant = %(tenant)s RETURNING 1
), recalls AS (
    DELETE FROM {memory}.recalls t WHERE t.tenant = %(tenant)s RETURNING 1
), imports AS (
    DELETE FROM {memory}.imports t WHERE t.tenant = %(tenant)s RETURNING 1
)
SELECT 'memories', count(*) FROM memories
UNION ALL SELECT 'vectors', count(*) FROM vectors
UNION ALL SELECT 'usage', count(*) FROM usage
UNION ALL SELECT 'exposures', count(*) FROM exposures
UNION ALL SELECT 'lineage', count(*) FROM lineage
UNION ALL SELECT 'events', count(*) FROM events
UNION ALL SELECT 'states', count(*) FROM states
UNION ALL SELECT 'intentions', count(*) FROM intentions
UNION ALL SELECT 'archived', count(*) FROM archived
UNION ALL SELECT 'archives', count(*) FROM archives
UNION ALL SELECT 'cycles', count(*) FROM cycles
UNION ALL SELECT 'leases', count(*) FROM leases
UNION ALL SELECT 'tenant_sizes', count(*) FROM sizes
UNION ALL SELECT 'recalls', count(*) FROM recalls
UNION ALL SELECT 'audit', count(*) FROM {memory}.audit a WHERE a.tenant = %(tenant)s AND {part tells}
UNION ALL SELECT 'imports', count(*) FROM imports;

-- name: forget_events
-- Delete events, and redact others. Returns the numbers of deleted and of redacted ones.
WITH gone AS (
    DELETE FROM {memory}.events e
    WHERE e.tenant = %(tenant)s AND e.event = ANY (%(gone)s::text[])
    RETURNING 1
), changed AS (
    UPDATE {memory}.events e SET id = w.id, target = w.target, detail = w.detail::jsonb
    FROM unnest(%(events)s::text[], %(ids)s::bigint[], %(targets)s::bigint[], %(details)s::text[])
             WITH ORDINALITY AS w (event, id, target, detail, ord)
    WHERE {few} AND e.tenant = %(tenant)s AND e.event = w.event
    RETURNING 1
)
SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM changed);

-- name: forget_states
-- Delete states. Returns the count.
WITH gone AS (
    DELETE FROM {memory}.states s
    USING unnest(%(owners)s::text[], %(kinds)s::text[], %(names)s::text[])
              WITH ORDINALITY AS w (owner, kind, name, ord)
    WHERE {few} AND s.tenant = %(tenant)s AND s.owner = w.owner AND s.kind = w.kind
      AND s.name = w.name
    RETURNING 1
)
SELECT count(*) FROM gone;

-- name: forget_waiting
-- Delete intentions whose memories stay, and redact the holders of others. Returns the count.
WITH gone AS (
    DELETE FROM {memory}.intentions i
    WHERE i.tenant = %(tenant)s AND i.id = ANY (%(ids)s::bigint[])
    RETURNING 1
), unheld AS (
    UPDATE {memory}.intentions i SET holder = NULL
    WHERE i.tenant = %(tenant)s AND i.id = ANY (%(held)s::bigint[])
      AND i.id <> ALL (%(ids)s::bigint[])
)
SELECT count(*) FROM gone;

-- name: forget_shown
-- Delete exposures, by run and memory. Returns the count.
WITH gone AS (
    DELETE FROM {memory}.exposures x
    USING unnest(%(runs)s::text[], %(ids)s::bigint[]) WITH ORDINALITY AS w (run, id, ord)
    WHERE {few} AND x.tenant = %(tenant)s AND x.run = w.run AND x.id = w.id
    RETURNING 1
)
SELECT count(*) FROM gone;

-- name: doubt_kin
-- Memories that came from a forgotten one and from others, and stay, become suspect, unless they
-- are out of recall for their content; an event gives the reason.
WITH given AS MATERIALIZED (
    SELECT w.* FROM unnest(%(ids)s::bigint[], %(events)s::text[])
                        WITH ORDINALITY AS w (id, event, ord)
    WHERE {few}
), doubted AS (
    UPDATE {memory}.memories m
    SET state = CASE WHEN m.state IN ('retracted', 'quarantined', 'demoted') THEN m.state
                ELSE 'suspect' END,
        state_at = CASE WHEN m.state IN ('retracted', 'quarantined', 'demoted') THEN m.state_at
                   ELSE %(now)s::timestamptz END
    FROM given g
    WHERE m.tenant = %(tenant)s AND m.id = g.id
    RETURNING m.id, g.event
)
INSERT INTO {memory}.events (tenant, event, kind, id, at, detail)
SELECT %(tenant)s, d.event, 'rewritten', d.id, %(now)s::timestamptz,
       jsonb_build_object('reasons', jsonb_build_array('something that it came from was forgotten'))
FROM doubted d;

-- name: unquote_memories
-- Delete quotations beside the content of other memories, and change nothing else. Returns the
-- memories that are as they were read.
UPDATE {memory}.memories m SET value = w.value::jsonb
FROM unnest(%(ids)s::bigint[], %(values)s::text[], %(versions)s::timestamptz[])
         WITH ORDINALITY AS w (id, value, version, ord)
WHERE {few} AND m.tenant = %(tenant)s AND m.id = w.id AND m.updated_at = w.version
RETURNING m.id;

-- name: is_counted
-- True if the memories of a tenant were counted.
SELECT EXISTS (SELECT FROM {memory}.tenant_sizes s WHERE s.tenant = %(tenant)s);

-- name: replace_archives
-- Replace archive files by their copies without some lines; delete those without any line left.
WITH given AS MATERIALIZED (
    SELECT w.* FROM unnest(%(old)s::text[], %(archives)s::text[], %(urls)s::text[],
                           %(checksums)s::text[], %(left)s::bigint[])
                        WITH ORDINALITY AS w (old, archive, url, checksum, lines, ord)
    WHERE {few}
), renamed AS (
    UPDATE {memory}.archived a SET archive = g.archive FROM given g
    WHERE a.tenant = %(tenant)s AND a.archive = g.old AND g.archive IS NOT NULL
), changed AS (
    UPDATE {memory}.archives a
    SET archive = g.archive, url = g.url, checksum = g.checksum,
        memories = least(a.memories, g.lines)
    FROM given g
    WHERE a.tenant = %(tenant)s AND a.archive = g.old AND g.archive IS NOT NULL
    RETURNING 1
), gone AS (
    DELETE FROM {memory}.archives a USING given g
    WHERE a.tenant = %(tenant)s AND a.archive = g.old AND g.archive IS NULL
    RETURNING 1
)
SELECT (SELECT count(*) FROM changed), (SELECT count(*) FROM gone);

-- name: hold_archives
-- The archive files of a tenant, locked until the end.
SELECT a.archive, a.checksum FROM {memory}.archives a
WHERE a.tenant = %(tenant)s
ORDER BY a.archive
FOR UPDATE;

-- name: tombstone_key
-- The key of a tenant's hashes, if there is one.
SELECT encode(k.secret, 'hex') FROM {memory}.tombstone_keys k WHERE k.tenant = %(tenant)s;

-- name: keep_tombstone_key
-- Store a key, unless there is one.
INSERT INTO {memory}.tombstone_keys (tenant, secret)
VALUES (%(tenant)s, decode(%(secret)s, 'hex'))
ON CONFLICT (tenant) DO NOTHING;

-- name: bury
-- Contents that no import and no archive brings back.
INSERT INTO {memory}.tombstones (tenant, hash, forgotten_at)
SELECT %(tenant)s, decode(w.hash, 'hex'), %(now)s::timestamptz
FROM unnest(%(hashes)s::text[]) WITH ORDINALITY AS w (hash, ord)
ORDER BY w.hash
ON CONFLICT (tenant, hash) DO NOTHING;

-- name: buried
-- Those of these contents that were forgotten.
SELECT encode(t.hash, 'hex')
FROM unnest(%(hashes)s::text[]) WITH ORDINALITY AS w (hash, ord)
CROSS JOIN LATERAL (
    SELECT t.hash FROM {memory}.tombstones t
    WHERE t.tenant = %(tenant)s AND t.hash = decode(w.hash, 'hex') LIMIT 1
) t
WHERE {few};

-- name: readmit
-- Allow contents to come back.
DELETE FROM {memory}.tombstones t
USING unnest(%(hashes)s::text[]) WITH ORDINALITY AS w (hash, ord)
WHERE {few} AND t.tenant = %(tenant)s AND t.hash = decode(w.hash, 'hex');

-- name: record_forgetting
-- Store the receipt, with the files to delete once this is committed.
INSERT INTO {memory}.forgettings (tenant, receipt, asked, at, detail, files, threads)
VALUES (%(tenant)s, %(receipt)s, %(asked)s, %(now)s::timestamptz, %(detail)s::jsonb,
        %(files)s::text[], %(threads)s::text[]);

-- name: forgettings
-- Earlier receipts of the same request, latest first, and of unfinished ones, whatever the request.
SELECT f.receipt, f.asked, f.detail, f.files, f.threads FROM {memory}.forgettings f
WHERE f.tenant = %(tenant)s
  AND (f.asked = %(asked)s OR cardinality(f.files) > 0 OR cardinality(f.threads) > 0)
ORDER BY f.at DESC, f.receipt;

-- name: receipt_given
-- A receipt as it was given, and its digest in the log, if that has it.
SELECT f.detail, (
    SELECT a.told ->> 'digest' FROM {memory}.audit a
    WHERE a.tenant = %(tenant)s AND a.verb = 'receipt' AND a.told ->> 'receipt' = f.receipt
    ORDER BY a.id LIMIT 1
)
FROM {memory}.forgettings f WHERE f.tenant = %(tenant)s AND f.receipt = %(receipt)s;

-- name: finish_forgetting
-- Note that no file of it is left to delete.
UPDATE {memory}.forgettings f SET files = %(files)s::text[], threads = %(threads)s::text[]
WHERE f.tenant = %(tenant)s AND f.receipt = %(receipt)s;
