-- What was rejected or made room is remembered for a while.
CREATE INDEX events_gone_since ON {memory}.events (at) WHERE kind IN ('rejected', 'evicted');
