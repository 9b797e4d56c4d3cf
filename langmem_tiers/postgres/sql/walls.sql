-- The wall between tenants, which holds for every query: row-level security on every table with a
-- tenant, partitions too, by the tenant that the transaction names in langmem_tiers.tenant. Without
-- one, no row can be seen or written. The owner of the tables sees all, whoever runs this, and so
-- do workers. Both kinds of roles can read the audit log; only its functions write it. Setup runs
-- this; a second run changes nothing. If the role may not create roles, missing ones are skipped,
-- until somebody creates them and runs setup again.
DO $walls$
DECLARE
    schemas constant name[] := ARRAY['{memory}', '{short_term}', '{working}', '{long_term}'];
    walled record;
    called name;
BEGIN
    FOREACH called IN ARRAY ARRAY['{application}', '{worker}'] LOOP
        BEGIN
            IF to_regrole(called::text) IS NULL THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', called);
            END IF;
        EXCEPTION WHEN insufficient_privilege OR duplicate_object OR unique_violation THEN
            NULL;  -- it may not, or another setup was faster
        END;
    END LOOP;
    FOR walled IN
        SELECT c.oid::regclass AS name, pg_get_userbyid(c.relowner) AS owner,
               c.relispartition AS part,
               n.nspname = '{memory}' AND c.relname IN ('audit', 'audit_links') AS logs
        FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped
        WHERE n.nspname = ANY (schemas) AND c.relkind IN ('r', 'p')
        ORDER BY c.relispartition, c.oid
    LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', walled.name);
        EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', walled.name);
        EXECUTE format('DROP POLICY IF EXISTS own_tenant ON %s', walled.name);
        EXECUTE format('DROP POLICY IF EXISTS owner ON %s', walled.name);
        EXECUTE format('DROP POLICY IF EXISTS worker ON %s', walled.name);
        -- One condition, of which no index knows: every statement names its tenant by itself as well, and
        -- is planned by that. The setting is read once a statement.
        EXECUTE format(
            'CREATE POLICY own_tenant ON %s USING (coalesce(tenant = ('
            'SELECT nullif(current_setting(''langmem_tiers.tenant'', true), '''')), false))',
            walled.name
        );
        EXECUTE format('CREATE POLICY owner ON %s TO %I USING (true)', walled.name, walled.owner);
        IF to_regrole('{application}') IS NOT NULL THEN
            EXECUTE format('REVOKE ALL ON %s FROM {application}', walled.name);
            EXECUTE format(
                'GRANT %s ON %s TO {application}',
                CASE WHEN walled.part OR walled.logs THEN 'SELECT'
                ELSE 'SELECT, INSERT, UPDATE, DELETE' END, walled.name
            );
        END IF;
        IF to_regrole('{worker}') IS NOT NULL THEN
            EXECUTE format('CREATE POLICY worker ON %s TO {worker} USING (true)', walled.name);
            EXECUTE format('REVOKE ALL ON %s FROM {worker}', walled.name);
            IF NOT walled.part THEN
                EXECUTE format(
                    'GRANT %s ON %s TO {worker}',
                    CASE WHEN walled.logs THEN 'SELECT'
                    ELSE 'SELECT, INSERT, UPDATE, DELETE' END, walled.name
                );
            END IF;
        END IF;
    END LOOP;
    FOREACH called IN ARRAY ARRAY['{application}', '{worker}'] LOOP
        CONTINUE WHEN to_regrole(called::text) IS NULL;
        EXECUTE format(
            'GRANT USAGE ON SCHEMA {memory}, {short_term}, {working}, {long_term} TO %I', called
        );
        -- The schema of pgvector is often another's: who may not look there is told so as it connects.
        BEGIN
            EXECUTE format('GRANT USAGE ON SCHEMA %s TO %I', (
                SELECT e.extnamespace::regnamespace FROM pg_extension e WHERE e.extname = 'vector'
            ), called);
        EXCEPTION WHEN insufficient_privilege THEN
            NULL;
        END;
        EXECUTE format('GRANT SELECT ON {memory}.migrations, {memory}.settings TO %I', called);
        EXECUTE format('GRANT USAGE ON SEQUENCE {memory}.memory_ids TO %I', called);
        EXECUTE format('GRANT EXECUTE ON FUNCTION {memory}.sees_rows, {memory}.audit_read, '
                       '{memory}.audit_forget, {memory}.audit_receipt TO %I', called);
    END LOOP;
    IF to_regrole('{application}') IS NOT NULL THEN
        GRANT EXECUTE ON FUNCTION {memory}.with_words, {memory}.of_type, {memory}.ended_turns, {memory}.gone,
                                     {memory}.of_handles, {memory}.of_pins
        TO {application};
        GRANT SELECT ON {short_term}.documents, {working}.documents, {long_term}.documents
        TO {application};
    END IF;
    IF to_regrole('{worker}') IS NOT NULL THEN
        GRANT INSERT, UPDATE ON {memory}.settings TO {worker};
    END IF;
END
$walls$;
