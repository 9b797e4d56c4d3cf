-- Of an intention that recurs and is leased: when it is due again once it was delivered.
ALTER TABLE {memory}.intentions ADD COLUMN next_at timestamptz;
