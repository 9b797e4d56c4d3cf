-- What was raised and never closed expires as what was not raised does.
DROP INDEX {memory}.intentions_expiring;
CREATE INDEX intentions_expiring ON {memory}.intentions (expires_at)
    WHERE status IN ('pending', 'delivered') AND expires_at IS NOT NULL;
-- Some words have other bases now: of a cue that was kept before, each query looks at it.
UPDATE {memory}.intentions SET name = '', words = '{}' WHERE kind = 'cue';
