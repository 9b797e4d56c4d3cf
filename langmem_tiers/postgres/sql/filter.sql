-- The {filter} of a statement: conditions (path, operator, operand), all of which must hold of
-- m.value. langmem_tiers/store/filters.py defines the operators.
(cardinality(%(filter_ops)s::text[]) = 0 OR NOT EXISTS (
    SELECT FROM unnest(%(filter_paths)s::text[], %(filter_ops)s::text[], %(filter_values)s::text[])
             AS f (path, op, operand)
    WHERE NOT coalesce(CASE f.op
        WHEN 'eq' THEN m.value #> f.path::text[] = f.operand::jsonb
        WHEN 'ne' THEN m.value #> f.path::text[] IS DISTINCT FROM f.operand::jsonb
        WHEN 'type' THEN jsonb_typeof(m.value #> f.path::text[]) = f.operand
        WHEN 'contains' THEN m.value #> f.path::text[] @> f.operand::jsonb
        WHEN 'always' THEN true
        WHEN 'never' THEN false
        ELSE CASE jsonb_typeof(m.value #> f.path::text[])
            WHEN 'number' THEN CASE
                WHEN jsonb_typeof(f.operand::jsonb) <> 'number' THEN false
                WHEN f.op = 'gt' THEN m.value #> f.path::text[] > f.operand::jsonb
                WHEN f.op = 'gte' THEN m.value #> f.path::text[] >= f.operand::jsonb
                WHEN f.op = 'lt' THEN m.value #> f.path::text[] < f.operand::jsonb
                WHEN f.op = 'lte' THEN m.value #> f.path::text[] <= f.operand::jsonb END
            WHEN 'string' THEN CASE
                WHEN jsonb_typeof(f.operand::jsonb) <> 'string' THEN false
                WHEN f.op = 'gt' THEN
                    (m.value #>> f.path::text[]) COLLATE "C" > (f.operand::jsonb #>> '{}')
                WHEN f.op = 'gte' THEN
                    (m.value #>> f.path::text[]) COLLATE "C" >= (f.operand::jsonb #>> '{}')
                WHEN f.op = 'lt' THEN
                    (m.value #>> f.path::text[]) COLLATE "C" < (f.operand::jsonb #>> '{}')
                WHEN f.op = 'lte' THEN
                    (m.value #>> f.path::text[]) COLLATE "C" <= (f.operand::jsonb #>> '{}') END
            END
        END, false)
))
