-- How turns ended, the latest first: a tenant's, and a session's.
CREATE INDEX events_ended ON {memory}.events (tenant, at, event)
    WHERE kind IN ('committed', 'abandoned', 'failed');
CREATE INDEX events_ended_session ON {memory}.events
    (tenant, (detail ->> 'session_id'), at, event)
    WHERE kind IN ('committed', 'abandoned', 'failed') AND detail ? 'session_id';
