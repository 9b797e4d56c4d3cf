-- What is quarantined, oldest first.
CREATE INDEX memories_quarantined ON {memory}.memories (tenant, created_at, id)
    WHERE state = 'quarantined';
-- What was rejected or made room, by the key that it had.
CREATE INDEX events_gone ON {memory}.events (tenant, (detail ->> 'key'))
    WHERE kind IN ('rejected', 'evicted');
