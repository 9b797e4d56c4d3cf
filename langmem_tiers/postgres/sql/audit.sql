-- The statements of the audit log. Triggers and functions of migration 25 write its rows.

-- name: audit_read
-- Log a read of these memories. The setting is that of the wall: it says what the function may see.
WITH named AS MATERIALIZED (SELECT set_config('langmem_tiers.tenant', %(tenant)s::text, true))
SELECT {memory}.audit_read(%(ids)s::bigint[]) FROM named;

-- name: audit_forget
-- Log that these memories were forgotten, or all without any, and delete their contents from the
-- log.
WITH named AS MATERIALIZED (SELECT set_config('langmem_tiers.tenant', %(tenant)s::text, true))
SELECT {memory}.audit_forget(%(ids)s::bigint[], %(entries)s::bigint[], %(named)s::boolean) FROM named;

-- name: audit_receipt
-- Log a receipt.
WITH named AS MATERIALIZED (SELECT set_config('langmem_tiers.tenant', %(tenant)s::text, true))
SELECT {memory}.audit_receipt(%(receipt)s::text, %(digest)s::text) FROM named;

-- name: audit_told
-- The readable entries of the log, a page after a given one.
SELECT a.id, a.memories, a.verb, a.told FROM {memory}.audit a
WHERE a.tenant = %(tenant)s AND a.id > %(after)s AND a.told IS NOT NULL
ORDER BY a.id LIMIT %(limit)s;

-- name: audit_latest
-- The log, latest first, of one key or of all.
SELECT a.id, a.at, a.verb, a.memories, a.told FROM {memory}.audit a
WHERE a.tenant = %(tenant)s AND (%(key)s::text IS NULL OR a.told ->> 'key' = %(key)s::text
      OR EXISTS (SELECT FROM jsonb_array_elements(a.told -> 'read') r WHERE r ->> 1 = %(key)s::text))
ORDER BY a.id DESC LIMIT %(limit)s;

-- name: audit_links
-- The links of a chain, a page after a given one.
SELECT l.seq, l.ids::text, l.hash FROM {memory}.audit_links l
WHERE l.tenant = %(tenant)s AND l.seq > %(after)s AND l.seq <= %(last)s
ORDER BY l.seq LIMIT %(limit)s;

-- name: audit_head
-- The last link of a chain.
SELECT l.seq, l.hash FROM {memory}.audit_links l WHERE l.tenant = %(tenant)s
ORDER BY l.seq DESC LIMIT 1;

-- name: audit_rows
-- The rows in ranges of ids, each without its end, with all fields of their hashes.
SELECT a.id, a.xact::text, a.opens, extract(epoch FROM a.at)::text, a.verb, a.memories::text,
       a.told::text, a.told_hash, a.salt, a.value_hash, a.hash
FROM unnest(%(firsts)s::bigint[], %(ends)s::bigint[]) WITH ORDINALITY AS w (first, until, ord)
CROSS JOIN LATERAL (
    SELECT * FROM {memory}.audit a
    WHERE a.tenant = %(tenant)s AND a.id >= w.first AND a.id < w.until OFFSET 0
) a
WHERE {few}
ORDER BY w.ord, a.id;

-- name: audit_forgotten
-- The forgotten memories, with the entry of each; an entry without names is about all.
SELECT n.id, max(a.id) FROM {memory}.audit a LEFT JOIN LATERAL unnest(a.memories) AS n (id) ON true
WHERE a.tenant = %(tenant)s AND a.verb = 'forget' AND (n.id IS NOT NULL OR a.memories = '{}')
GROUP BY n.id;

-- name: audit_loose
-- The first row in no link: a range adds one at its beginning and takes one away at its end.
SELECT e.id FROM (
    SELECT e.id, e.step, sum(e.step) OVER (
        ORDER BY e.id, e.step = 0, e.step ROWS UNBOUNDED PRECEDING) AS inside
    FROM (
        SELECT lower(r.ids) AS id, 1 AS step
        FROM {memory}.audit_links l CROSS JOIN unnest(l.ids) AS r (ids) WHERE l.tenant = %(tenant)s
        UNION ALL
        SELECT upper(r.ids), -1
        FROM {memory}.audit_links l CROSS JOIN unnest(l.ids) AS r (ids) WHERE l.tenant = %(tenant)s
        UNION ALL
        SELECT a.id, 0 FROM {memory}.audit a WHERE a.tenant = %(tenant)s
    ) e
) e
WHERE e.step = 0 AND e.inside < 1
ORDER BY e.id LIMIT 1;
