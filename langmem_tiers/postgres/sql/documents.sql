-- One tier as documents, for programs that read Postgres tables. It shows the tenant that the
-- transaction names in langmem_tiers.tenant, and nothing without one: shared memories, and those of
-- the user named in langmem_tiers.user, as far as a recall shows them: true by now, and not
-- superseded, retracted or quarantined. A security barrier: no condition of the reader's runs on a
-- row of another tenant. Setup runs this for each tier.
CREATE OR REPLACE VIEW {schema}.documents WITH (security_barrier, security_invoker) AS
SELECT m.key AS id,
       CASE WHEN jsonb_typeof(m.value -> 'content') = 'string' THEN m.value ->> 'content'
            WHEN jsonb_typeof(m.value -> 'text') = 'string' THEN m.value ->> 'text'
            ELSE m.value::text END AS content,
       v.embedding::vector AS embedding,
       m.value - 'content' || jsonb_build_object(
           'key', m.key,
           'namespace', to_jsonb(array_prepend(m.tenant, string_to_array(left(m.namespace, -1), '.'))),
           'tier', '{tier}',
           'created_at', m.created_at,
           'updated_at', m.updated_at
       ) AS metadata
FROM {schema}.vectors v
JOIN {schema}.memories m ON m.tenant = v.tenant AND m.id = v.id
WHERE v.tenant = nullif(current_setting('langmem_tiers.tenant', true), '')
  AND (m.user_id IS NULL OR m.user_id = nullif(current_setting('langmem_tiers.user', true), ''))
  AND (m.expires_at IS NULL OR m.expires_at > now())
  AND (m.state IS NULL OR m.state = 'superseded' AND m.valid_to > now())
  AND (m.valid_to IS NULL OR m.valid_to > now())
  AND (m.valid_from IS NULL OR m.valid_from <= now());
