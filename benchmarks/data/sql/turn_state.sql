-- name: fill
INSERT INTO memory.states (tenant, owner, kind, name, value, at, expires_at)
SELECT 'tenant' || t, CASE k.kind WHEN 'message' THEN 'project.session' || a || '.'
                      ELSE 'agent' || a || '.' END,
       k.kind, CASE k.kind WHEN 'emotion' THEN '' WHEN 'spend' THEN current_date::text
               ELSE i::text END,
       CASE k.kind
       WHEN 'message' THEN jsonb_build_object('role', 'user', 'content', repeat('word ', 30),
                                              'metadata', jsonb_build_object('platform', 'web'))
       WHEN 'task' THEN jsonb_build_object('task_id', i::text, 'task_type', 'writing', 'status',
                                           'in_progress', 'created_at', now(),
                                           'estimated_completion', NULL, 'worker_assigned', 'w',
                                           'confidence_so_far', 0.5,
                                           'metadata', jsonb_build_object())
       WHEN 'goal' THEN jsonb_build_object('goal_id', i::text, 'description', 'A goal to reach',
                                           'progress', 0.5, 'deltas', jsonb_build_array(),
                                           'priority', 0, 'constraints', jsonb_build_array(),
                                           'status', 'active')
       WHEN 'emotion' THEN jsonb_build_object('primary_emotion', 'engaged', 'last_updated', now(),
                                              'confidence_level', 0.88, 'conversation_sentiment',
                                              NULL, 'stress_indicators', jsonb_build_object())
       ELSE jsonb_build_object('date', current_date, 'total_spent', '32.50', 'transaction_count',
                               8, 'last_transaction_time', now()) END,
       now() - i * interval '1 second',
       CASE WHEN k.kind NOT IN ('task', 'goal') THEN now() + interval '1 day' END
FROM generate_series(1, 10) t, generate_series(1, 100) a,
     (VALUES ('message', 100), ('task', 10), ('goal', 5), ('emotion', 1), ('spend', 1))
         AS k (kind, number),
     LATERAL generate_series(1, k.number) i

-- name: messages
SELECT s.name, s.value, s.at FROM memory.states s
WHERE s.tenant = %s AND s.owner = %s AND s.kind = 'message' AND s.at > now() - interval '1 hour'
ORDER BY s.at DESC, s.number DESC LIMIT 20

-- name: states
SELECT s.name, s.value FROM memory.states s
WHERE s.tenant = %s AND s.owner = %s AND s.kind = ANY (%s)
  AND (s.expires_at IS NULL OR s.expires_at > now())
