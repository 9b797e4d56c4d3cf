-- What is due is found by its trigger, what is listed by its status, and what is over is forgotten.
DROP INDEX {memory}.intentions_due;
-- Those of a time, and those raised before, in the order in which they are raised.
CREATE INDEX intentions_timed ON {memory}.intentions (tenant, priority, due_at, id)
    WHERE status = 'pending' AND (kind = 'time' OR raised);
-- Those of a cue, by a word that shows it, of a tool and of a predicate, in that order.
CREATE INDEX intentions_named ON {memory}.intentions (tenant, kind, name, priority, due_at, id)
    WHERE status = 'pending';
-- All of a status, in that order.
CREATE INDEX intentions_listed ON {memory}.intentions (tenant, status, priority, due_at, id);
-- What expires before it is raised.
CREATE INDEX intentions_expiring ON {memory}.intentions (expires_at)
    WHERE status = 'pending' AND expires_at IS NOT NULL;
-- What is over, the longest first.
CREATE INDEX intentions_over ON {memory}.intentions (coalesce(closed_at, expires_at))
    WHERE coalesce(closed_at, expires_at) IS NOT NULL;
-- What waits for others.
CREATE INDEX intentions_needing ON {memory}.intentions USING gin (needs)
    WHERE cardinality(needs) > 0;
-- Of a cue that was kept before, the word that it is found by is not known: each query looks at it.
UPDATE {memory}.intentions SET name = '', words = '{}' WHERE kind = 'cue';
