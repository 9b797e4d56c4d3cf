-- How turns ended, the latest first: a project's.
CREATE INDEX events_ended_project ON {memory}.events
    (tenant, (detail ->> 'project_id'), at, event)
    WHERE kind IN ('committed', 'abandoned', 'failed') AND detail ? 'project_id';
