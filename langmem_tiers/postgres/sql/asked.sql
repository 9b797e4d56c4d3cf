-- The {asked} of a statement: what is {visible}, and what get_context may ask beside the query;
-- NULL asks nothing.
{visible}
AND (%(memory_types)s::text[] IS NULL OR coalesce(m.value ->> 'memory_type', 'episodic') = ANY (%(memory_types)s::text[]))
AND (%(tags)s::jsonb IS NULL OR m.value -> 'tags' @> %(tags)s::jsonb)
AND (%(agent_id)s::text IS NULL OR m.value ->> 'agent_id' = %(agent_id)s::text)
AND (%(since)s::timestamptz IS NULL OR coalesce(m.occurred_at, m.created_at) >= %(since)s::timestamptz)
AND (%(min_importance)s::float8 IS NULL OR CASE jsonb_typeof(m.value -> 'importance')
     WHEN 'number' THEN (m.value ->> 'importance')::numeric >= %(min_importance)s::float8::numeric
     ELSE false END)
