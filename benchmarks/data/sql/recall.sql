-- name: lexemes
SELECT t.n, l.lexeme, cardinality(l.positions)
FROM unnest(%s::text[]) WITH ORDINALITY AS t (text, n), unnest(to_tsvector('english', t.text)) AS l
