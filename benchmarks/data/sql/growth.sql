-- name: by_hand
-- What one writes first: the forty nearest and the forty best by words, fused by their ranks.
WITH near AS (
    SELECT v.id, row_number() OVER (ORDER BY v.embedding <=> %(vector)s) AS place
    FROM memory.vectors v
    WHERE v.tenant = %(tenant)s
    ORDER BY v.embedding <=> %(vector)s
    LIMIT 40
), asked AS (
    SELECT replace(plainto_tsquery('english', %(text)s)::text, '&', '|')::tsquery AS words
), said AS (
    SELECT m.id, row_number() OVER (ORDER BY ts_rank_cd(m.lexemes, a.words) DESC) AS place
    FROM memory.memories m, asked a
    WHERE m.tenant = %(tenant)s AND m.lexemes @@ a.words
    ORDER BY place
    LIMIT 40
)
SELECT m.key, m.value
FROM near FULL JOIN said USING (id)
JOIN memory.memories m ON m.tenant = %(tenant)s AND m.id = coalesce(near.id, said.id)
ORDER BY coalesce(1.0 / (60 + near.place), 0) + coalesce(1.0 / (60 + said.place), 0) DESC, m.key
LIMIT 10
