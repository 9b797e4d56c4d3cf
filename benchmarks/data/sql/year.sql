-- name: moves
SELECT e.kind, coalesce(m.key, k.key, ''), coalesce(t.key, a.key), e.at
FROM (
    SELECT e.kind, e.target, e.at, e.tenant, coalesce(w.id, e.id) AS id
    FROM memory.events e
    LEFT JOIN LATERAL jsonb_array_elements_text(e.detail -> 'sources') s (id) ON true
    CROSS JOIN LATERAL (SELECT s.id::bigint AS id) w
    WHERE e.undone_at IS NULL
) e
LEFT JOIN memory.memories m ON m.tenant = e.tenant AND m.id = e.id
LEFT JOIN memory.memories t ON t.tenant = e.tenant AND t.id = e.target
LEFT JOIN memory.archived k ON k.tenant = e.tenant AND k.id = e.id
LEFT JOIN memory.archived a ON a.tenant = e.tenant AND a.id = e.target
ORDER BY e.at
