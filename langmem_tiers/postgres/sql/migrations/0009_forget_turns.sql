-- What turns decided is kept for a while; the sweeper finds what is older.
CREATE INDEX events_turns ON {memory}.events (at) WHERE event >= 'turn/' AND event < 'turn0';
