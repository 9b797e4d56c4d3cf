-- name: sizes
SELECT n.nspname || '.' || c.relname, c.relkind = 'i',
       CASE c.relkind WHEN 'r' THEN pg_table_size(c.oid) ELSE pg_relation_size(c.oid) END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'i') AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
ORDER BY 3 DESC, 1
