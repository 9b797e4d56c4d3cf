-- The statements of exports and imports. The rules of queries.sql hold here too. {table}: the
-- statement is loaded for each exported table, as NAME_TABLE, with the table's order as {order}.

-- name: carry_count
SELECT count(*) FROM {memory}.{table} t WHERE t.tenant = %(tenant)s;

-- name: carry_out
-- A cursor over the rows of a tenant, each as JSON: carry_next reads some at a time. Numbers, times
-- and vectors are written so that they read back the same.
DECLARE carried NO SCROLL CURSOR FOR
SELECT row_to_json(t)::text FROM {memory}.{table} t WHERE t.tenant = %(tenant)s::text
ORDER BY {order};

-- name: carry_next
FETCH FORWARD 200 FROM carried;

-- name: carry_end
CLOSE carried;

-- name: begin_export
INSERT INTO {memory}.exports (tenant, part, machine, began_at)
VALUES (%(tenant)s, %(part)s, %(machine)s, %(now)s::timestamptz);

-- name: end_export
DELETE FROM {memory}.exports x WHERE x.tenant = %(tenant)s AND x.part = %(part)s;

-- name: exports
-- Exports that have begun and not ended, of a tenant or of all.
SELECT x.tenant, x.part, x.machine, x.began_at FROM {memory}.exports x
WHERE %(tenant)s::text IS NULL OR x.tenant = %(tenant)s::text
ORDER BY x.tenant, x.began_at, x.part;

-- name: carry_in
INSERT INTO {memory}.{table}
SELECT w.* FROM json_populate_recordset(NULL::{memory}.{table}, %(rows)s::json) AS w
WHERE w.tenant = %(tenant)s;

-- name: carry_in_beside
-- Existing rows stay.
INSERT INTO {memory}.{table}
SELECT w.* FROM json_populate_recordset(NULL::{memory}.{table}, %(rows)s::json) AS w
WHERE w.tenant = %(tenant)s
ON CONFLICT DO NOTHING;

-- name: carried_columns
-- The columns of tables, in order: table, column, type without its schema, and whether it needs a
-- value.
SELECT w.name, a.attname::text,
       regexp_replace(format_type(a.atttypid, a.atttypmod), '^.*\.', ''), a.attnotnull
FROM unnest(%(names)s::text[]) WITH ORDINALITY AS w (name, ord)
JOIN pg_attribute a ON a.attrelid = to_regclass('{memory}.' || w.name)
WHERE a.attnum > 0 AND NOT a.attisdropped
ORDER BY w.ord, a.attnum;

-- name: begun_import
SELECT i.export, i.done, i.shift, i.source, i.readmit FROM {memory}.imports i
WHERE i.tenant = %(tenant)s;

-- name: begin_import
INSERT INTO {memory}.imports (tenant, export, done, shift, source, readmit, began_at)
VALUES (%(tenant)s, %(export)s, 0, %(shift)s, %(source)s, %(readmit)s, %(now)s::timestamptz)
ON CONFLICT (tenant) DO NOTHING
RETURNING tenant;

-- name: continue_import
-- Continue an import from where its caller believes it to be; others wait until the end.
UPDATE {memory}.imports i SET done = %(done)s
WHERE i.tenant = %(tenant)s AND i.export = %(export)s AND i.done = %(before)s
RETURNING i.done;

-- name: end_import
DELETE FROM {memory}.imports i WHERE i.tenant = %(tenant)s AND i.export = %(export)s;

-- name: pass_ids
-- No id up to this one is drawn any more, and all transactions that drew one have ended.
SELECT {memory}.pass_ids(%(most)s::bigint);

-- name: draw_ids
-- Draw so many consecutive ids; returns the last one before them.
SELECT {memory}.draw_ids(%(many)s::bigint);

-- name: ids_between
-- True if other tenants have ids in this range.
SELECT EXISTS (
    SELECT FROM {memory}.memories m
    WHERE m.tenant <> %(tenant)s AND m.id BETWEEN %(low)s::bigint AND %(high)s::bigint
) OR EXISTS (
    SELECT FROM {memory}.archived a
    WHERE a.tenant <> %(tenant)s AND a.id BETWEEN %(low)s::bigint AND %(high)s::bigint
) OR EXISTS (
    SELECT FROM {memory}.events e
    WHERE e.tenant <> %(tenant)s AND e.number BETWEEN %(low)s::bigint AND %(high)s::bigint
) OR EXISTS (
    SELECT FROM {memory}.states s
    WHERE s.tenant <> %(tenant)s AND s.number BETWEEN %(low)s::bigint AND %(high)s::bigint
);

-- name: ids_among
-- True if other tenants have any of these ids.
SELECT EXISTS (
    SELECT FROM {memory}.memories m
    WHERE m.tenant <> %(tenant)s AND m.id = ANY (%(ids)s::bigint[])
) OR EXISTS (
    SELECT FROM {memory}.archived a
    WHERE a.tenant <> %(tenant)s AND a.id = ANY (%(ids)s::bigint[])
) OR EXISTS (
    SELECT FROM {memory}.events e
    WHERE e.tenant <> %(tenant)s AND e.number = ANY (%(ids)s::bigint[])
) OR EXISTS (
    SELECT FROM {memory}.states s
    WHERE s.tenant <> %(tenant)s AND s.number = ANY (%(ids)s::bigint[])
);
