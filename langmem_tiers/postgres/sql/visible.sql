-- The {visible} of a statement: what is true at `true_at` of what is known at `known_at`. Both are
-- now unless asked: then `as_of` and `known_at` are NULL, and neither when a memory was recorded
-- nor when its state came to be known is looked at. What is quarantined never is. {visible n} is the
-- same of rows named n.
(m.state IS NULL OR m.state_at > %(known_at)s::timestamptz AND m.state <> 'quarantined'
     OR m.state = 'superseded' AND m.valid_to > %(true_at)s::timestamptz)
AND (m.valid_to IS NULL OR m.valid_to > %(true_at)s::timestamptz
     OR m.state = 'superseded' AND m.state_at > %(known_at)s::timestamptz)
AND CASE WHEN m.valid_from IS NOT NULL THEN m.valid_from <= %(true_at)s::timestamptz
    ELSE %(as_of)s::timestamptz IS NULL
         OR least(m.occurred_at, m.created_at) <= %(as_of)s::timestamptz END
AND (%(known_at)s::timestamptz IS NULL OR m.created_at <= %(known_at)s::timestamptz)
