-- The statements of `langmem-tiers doctor`. %(who)s is the role that is checked.

-- name: doctor_login
-- The login, and its rights that pass the wall: superuser, BYPASSRLS, the rights of the schemas'
-- owner or of a worker. Also which of the roles exist and pass the wall themselves, the owner, and
-- whether the owner's dumps pass the wall.
SELECT session_user::text, r.rolsuper, r.rolbypassrls,
       pg_has_role(session_user, n.nspowner, 'MEMBER'),
       coalesce(pg_has_role(session_user, to_regrole(%(worker)s::text), 'MEMBER'), false),
       to_regrole(%(application)s::text) IS NOT NULL, to_regrole(%(worker)s::text) IS NOT NULL,
       EXISTS (
           SELECT FROM pg_roles o
           WHERE o.rolname = %(application)s::text
             AND (o.rolsuper OR o.rolbypassrls OR pg_has_role(o.oid, n.nspowner, 'MEMBER'))
       ),
       coalesce(pg_has_role(session_user, to_regrole(%(application)s::text), 'MEMBER'), false),
       w.rolname::text, w.rolsuper OR w.rolbypassrls
FROM pg_roles r, pg_namespace n JOIN pg_roles w ON w.oid = n.nspowner
WHERE r.rolname = session_user AND n.nspname = ANY (%(schemas)s::text[])
  AND EXISTS (SELECT FROM {memory}.migrations)
ORDER BY n.nspname LIMIT 1;

-- name: doctor_tables
-- Every table with a tenant, partitions too: whether it is walled, from its owner as well; whether
-- its own policy exists and no other lets this role see more; and whether a row is visible now.
SELECT c.oid::regclass::text, c.relrowsecurity AND c.relforcerowsecurity,
       EXISTS (
           SELECT FROM pg_policy p
           WHERE p.polrelid = c.oid AND p.polname = 'own_tenant' AND p.polcmd = '*'
             AND p.polwithcheck IS NULL AND pg_get_expr(p.polqual, p.polrelid)
                 ~ '^COALESCE\(\(tenant = \( SELECT NULLIF\(current_setting\(''langmem_tiers\.tenant''::text, true\), ''''::text\) AS "?nullif"?\)\), false\)$'
       ) AND NOT EXISTS (
           SELECT FROM pg_policy p, unnest(p.polroles) AS r (oid)
           WHERE p.polrelid = c.oid AND p.polname <> 'own_tenant' AND p.polpermissive
             AND (r.oid = 0 OR pg_has_role(%(who)s::text, nullif(r.oid, 0), 'USAGE'))
       ),
       {memory}.sees_rows(c.oid)
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped
WHERE n.nspname = ANY (%(schemas)s::text[]) AND c.relkind IN ('r', 'p')
ORDER BY 1;

-- name: doctor_rights
-- Rights of this role on the schemas and their contents that an application does not need.
SELECT c.oid::regclass::text, string_agg(r.name, ', ' ORDER BY r.name)
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN unnest(ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) AS r (name)
WHERE n.nspname = ANY (%(schemas)s::text[]) AND c.relkind IN ('r', 'p', 'v')
  AND has_table_privilege(%(who)s::text, c.oid, r.name)
  AND (r.name IN ('TRUNCATE', 'REFERENCES', 'TRIGGER') OR c.relispartition OR c.relkind = 'v'
       OR c.relname IN ('migrations', 'settings', 'audit', 'audit_links'))
GROUP BY c.oid
UNION ALL
SELECT n.nspname::text, 'CREATE' FROM pg_namespace n
WHERE n.nspname = ANY (%(schemas)s::text[]) AND has_schema_privilege(%(who)s::text, n.oid, 'CREATE')
ORDER BY 1;

-- name: doctor_functions
-- Functions with the owner's rights that another role owns, that have no search path of their own,
-- or that anybody may call.
SELECT p.oid::regprocedure::text
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = ANY (%(schemas)s::text[]) AND p.prosecdef
  AND (p.proowner <> n.nspowner OR p.proacl IS NULL
       OR NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false)
       OR EXISTS (SELECT FROM aclexplode(p.proacl) x WHERE x.grantee = 0))
ORDER BY 1;

-- name: doctor_audit
-- Tables that should be logged, but whose triggers do not log writes.
SELECT c.oid::regclass::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ANY (%(schemas)s::text[]) AND c.relname IN ('memories', 'audit') AND c.relkind IN ('r', 'p')
  AND NOT EXISTS (
      SELECT FROM {memory}.settings s WHERE s.name = 'audit' AND s.value = 'false'
  )
  AND (
      SELECT count(*) FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
      WHERE t.tgrelid = c.oid AND t.tgenabled IN ('O', 'A')
        AND p.proname = t.tgname AND p.pronamespace = '{memory}'::regnamespace
  ) <> CASE c.relname WHEN 'memories' THEN 3 ELSE 1 END
ORDER BY 1;
