-- The whole schema; a database with a number below this file's is refused. The vector tables, whose
-- shape is configured, are in vectors.sql.

CREATE EXTENSION IF NOT EXISTS vector;
CREATE SCHEMA IF NOT EXISTS {memory};
-- The migrations that have run here, each with the checksum of its file.
CREATE TABLE {memory}.migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL
);

CREATE SCHEMA {short_term};
CREATE SCHEMA {working};
CREATE SCHEMA {long_term};

CREATE TYPE {memory}.tier AS ENUM ('short_term', 'working', 'long_term');
CREATE SEQUENCE {memory}.memory_ids;

-- What this database was set up for: the shape of its vectors.
CREATE TABLE {memory}.settings (
    name  text PRIMARY KEY,
    value jsonb NOT NULL
);

-- One logical table, one partition and one schema a tier. The tenant is the first label of
-- the namespace; `namespace` holds the labels after it, each followed by a dot ('' for none),
-- so that a prefix is a range of whole labels. (tenant, namespace, key) is unique across
-- tiers by the rule of put: a memory is updated where it lives.
CREATE TABLE {memory}.memories (
    tenant      text COLLATE "C" NOT NULL,
    tier        {memory}.tier NOT NULL,
    id          bigint NOT NULL DEFAULT nextval('{memory}.memory_ids'),
    namespace   text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    value       jsonb NOT NULL,
    lexemes     tsvector,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    expires_at  timestamptz,
    ttl_minutes double precision,
    -- Read from the value: the session the memory belongs to and its turn there, who said it,
    -- and when what it tells happened.
    session     text COLLATE "C",
    turn        integer,
    speaker     text COLLATE "C",
    occurred_at timestamptz,
    -- NULL is current; `consolidated` lives on in a successor, `demoted` was one that failed,
    -- `superseded` was true until `valid_to`, `retracted` never was, what came from a retracted
    -- memory is `suspect`, and what the gate holds back until somebody releases it `quarantined`.
    state       text COLLATE "C",
    -- Of a failure: what failed without its accidents, and the tool it failed in.
    signature   text COLLATE "C",
    tool        text COLLATE "C",
    -- When what it says was true, and since when its state has been known.
    valid_from  timestamptz,
    valid_to    timestamptz,
    state_at    timestamptz,
    -- The user whose it is; NULL is shared by all of the tenant. It follows from the namespace.
    user_id     text COLLATE "C",
    PRIMARY KEY (tenant, id, tier)
) PARTITION BY LIST (tier);

CREATE TABLE {short_term}.memories PARTITION OF {memory}.memories FOR VALUES IN ('short_term');
CREATE TABLE {working}.memories PARTITION OF {memory}.memories FOR VALUES IN ('working');
CREATE TABLE {long_term}.memories PARTITION OF {memory}.memories FOR VALUES IN ('long_term');

-- Newest first within a tenant, for search without a query.
CREATE INDEX memories_newest ON {memory}.memories (tenant, updated_at DESC);
-- What the sweeper removes.
CREATE INDEX memories_expiring ON {memory}.memories (expires_at) WHERE expires_at IS NOT NULL;
-- Words; each tsvector also holds its tenant as a lexeme, so that one index narrows by both.
-- Without a pending list the index is a quarter of the size and no put pays for flushing it.
CREATE INDEX memories_lexemes ON {memory}.memories USING gin (lexemes) WITH (fastupdate = off);

-- The neighbours of a turn.
CREATE INDEX memories_turns ON {memory}.memories (tenant, namespace, session, turn)
    WHERE session IS NOT NULL;
-- The names in a scope, which a skip scan reads.
CREATE INDEX memories_speakers ON {memory}.memories (tenant, speaker) WHERE speaker IS NOT NULL;
-- By key first: a memory is also found by its key alone. It comes after the indexes above, as of
-- those that seem to cost the same, which is all while the tables are empty, Postgres takes the last.
ALTER TABLE {memory}.memories ADD UNIQUE (tenant, key, namespace, tier);

-- The lessons of a failure, and of a tool about to run, newest first.
CREATE INDEX memories_signatures ON {memory}.memories (tenant, signature, updated_at DESC)
    WHERE signature IS NOT NULL;
CREATE INDEX memories_tools ON {memory}.memories (tenant, tool, updated_at DESC)
    WHERE tool IS NOT NULL;

-- What is quarantined, oldest first.
CREATE INDEX memories_quarantined ON {memory}.memories (tenant, created_at, id)
    WHERE state = 'quarantined';

-- Counters change on every read, so they live in a narrow row of their own that no index
-- but the key covers. A memory that was never read has none.
CREATE TABLE {memory}.usage (
    tenant           text COLLATE "C" NOT NULL,
    id               bigint NOT NULL,
    access_count     integer NOT NULL DEFAULT 0,
    success_count    integer NOT NULL DEFAULT 0,
    failure_count    integer NOT NULL DEFAULT 0,
    last_accessed_at timestamptz,
    -- Accesses, each counting half after 30 days.
    strength         double precision NOT NULL DEFAULT 0,
    -- When the strength was last brought up to date: by an access, or by a cycle.
    strength_at      timestamptz,
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 60);

-- What was put before a run, of which user, at which place, and what came of the run. What was held out was
-- recalled and not shown, so that its absence can be compared. `run` is one attempt, `root` the
-- whole run it belongs to. What was settled, by the outcome of the run `settled_by`, has a result
-- in `succeeded`, but for further attempts of one run: a memory is credited once for each outcome.
CREATE TABLE {memory}.exposures (
    tenant     text COLLATE "C" NOT NULL,
    run        text COLLATE "C" NOT NULL,
    id         bigint NOT NULL,
    root       text COLLATE "C",
    project    text COLLATE "C",
    position   integer NOT NULL,
    held_out   boolean NOT NULL,
    exposed_at timestamptz NOT NULL,
    succeeded  boolean,
    settled_at timestamptz,
    settled_by text COLLATE "C",
    user_id    text COLLATE "C",
    PRIMARY KEY (tenant, run, id)
);
CREATE INDEX exposures_memory ON {memory}.exposures (tenant, id);
CREATE INDEX exposures_root ON {memory}.exposures (tenant, root) WHERE root IS NOT NULL;
-- What no outcome came of, oldest first: the sweep forgets it.
CREATE INDEX exposures_open ON {memory}.exposures (exposed_at) WHERE succeeded IS NULL;

-- Which memory came from which, by which event. What was `derived` depends on its source; of the
-- others, the source lives on in what came of it.
CREATE TABLE {memory}.lineage (
    tenant  text COLLATE "C" NOT NULL,
    id      bigint NOT NULL,
    source  bigint NOT NULL,
    event   text COLLATE "C" NOT NULL,
    derived boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant, id, source)
);
CREATE INDEX lineage_sources ON {memory}.lineage (tenant, source);

-- What was done to a memory, why, and what it was before; and what a turn decided, which need not
-- be about a memory.
CREATE TABLE {memory}.events (
    tenant    text COLLATE "C" NOT NULL,
    event     text COLLATE "C" NOT NULL,
    -- The order in which they happened.
    number    bigint NOT NULL DEFAULT nextval('{memory}.memory_ids'),
    kind      text COLLATE "C" NOT NULL,
    id        bigint,
    target    bigint,
    at        timestamptz NOT NULL,
    detail    jsonb NOT NULL,
    undone_at timestamptz,
    PRIMARY KEY (tenant, event)
);
CREATE INDEX events_memory ON {memory}.events (tenant, id);
CREATE INDEX events_target ON {memory}.events (tenant, target) WHERE target IS NOT NULL;
-- Moves that were rolled back, which are not made again by themselves.
CREATE INDEX events_undone ON {memory}.events (tenant) WHERE undone_at IS NOT NULL;
-- What was rejected or made room, by the key that it had.
CREATE INDEX events_gone ON {memory}.events (tenant, (detail ->> 'key'))
    WHERE kind IN ('rejected', 'evicted');
-- The same, which is remembered for a while.
CREATE INDEX events_gone_since ON {memory}.events (at) WHERE kind IN ('rejected', 'evicted');
-- What turns decided, which is kept for a while.
CREATE INDEX events_turns ON {memory}.events (at) WHERE event >= 'turn/' AND event < 'turn0';
-- How turns ended, read backwards: a tenant's, a session's, and a project's.
CREATE INDEX events_ended ON {memory}.events (tenant, at, event)
    WHERE kind IN ('committed', 'abandoned');
CREATE INDEX events_ended_session ON {memory}.events
    (tenant, (detail ->> 'session_id'), at, event)
    WHERE kind IN ('committed', 'abandoned') AND detail ? 'session_id';
CREATE INDEX events_ended_project ON {memory}.events
    (tenant, (detail ->> 'project_id'), at, event)
    WHERE kind IN ('committed', 'abandoned') AND detail ? 'project_id';

-- Who may consolidate a tenant, until when. The fence grows with each holder.
CREATE TABLE {memory}.leases (
    tenant text COLLATE "C" NOT NULL PRIMARY KEY,
    holder text COLLATE "C" NOT NULL,
    fence  bigint NOT NULL,
    until  timestamptz NOT NULL
);

-- Up to when each step of consolidation has seen everything.
CREATE TABLE {memory}.cycles (
    tenant text COLLATE "C" NOT NULL,
    step   text COLLATE "C" NOT NULL,
    seen   timestamptz NOT NULL,
    PRIMARY KEY (tenant, step)
);

-- Archive files, and the memories that are in them and nowhere else.
CREATE TABLE {memory}.archives (
    tenant      text COLLATE "C" NOT NULL,
    archive     text COLLATE "C" NOT NULL,
    url         text NOT NULL,
    checksum    text NOT NULL,
    memories    bigint NOT NULL,
    archived_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, archive)
);
CREATE TABLE {memory}.archived (
    tenant    text COLLATE "C" NOT NULL,
    id        bigint NOT NULL,
    tier      {memory}.tier NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    archive   text COLLATE "C" NOT NULL,
    user_id   text COLLATE "C",
    PRIMARY KEY (tenant, id)
);
CREATE INDEX archived_keys ON {memory}.archived (tenant, key);
CREATE INDEX archived_files ON {memory}.archived (tenant, archive);

-- What is going on: the last hour of a session's conversation; an agent's tasks, goals, mood and
-- spend. A session is named by its namespace, which ends with a dot, an agent by its label, which
-- has none; behind it is the label of a user, where one is named. What is to happen once leaves its
-- id here for a day, so that a retry is seen.
CREATE TABLE {memory}.states (
    tenant     text COLLATE "C" NOT NULL,
    owner      text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    value      jsonb NOT NULL,
    at         timestamptz NOT NULL,
    expires_at timestamptz,
    -- The order in which they came.
    number     bigint NOT NULL DEFAULT nextval('{memory}.memory_ids'),
    PRIMARY KEY (tenant, owner, kind, name)
);
-- The end of a conversation, read backwards.
CREATE INDEX states_messages ON {memory}.states (tenant, owner, at, number)
    WHERE kind = 'message';
-- What the sweeper removes.
CREATE INDEX states_expiring ON {memory}.states (expires_at) WHERE expires_at IS NOT NULL;

-- Intentions: when a prospective memory is raised, and what became of that. The row goes with its
-- memory. `trigger` is what was asked for; `kind`, `due_at`, `name` (of a cue: the longest of `words`,
-- all of which show it) are what it is found by. It is not raised before `due_at`, not after `expires_at`, and not before those it `needs` are
-- done. `raised` is one whose trigger has been met: then `due_at` alone counts. Whoever raised it
-- last holds it until `leased_until`; `fence` grows each time.
CREATE TABLE {memory}.intentions (
    tenant       text COLLATE "C" NOT NULL,
    id           bigint NOT NULL,
    priority     smallint NOT NULL,
    kind         text COLLATE "C" NOT NULL,
    trigger      jsonb NOT NULL,
    due_at       timestamptz NOT NULL,
    words        text[] COLLATE "C",
    name         text COLLATE "C",
    expires_at   timestamptz,
    needs        bigint[] NOT NULL,
    status       text COLLATE "C" NOT NULL,
    raised       boolean NOT NULL DEFAULT false,
    holder       text COLLATE "C",
    fence        bigint NOT NULL DEFAULT 0,
    leased_until timestamptz,
    delivered_at timestamptz,
    closed_at    timestamptz,
    -- When one that recurs and is leased is due again, once it was delivered.
    next_at      timestamptz,
    PRIMARY KEY (tenant, id)
);
-- Those of a time, and those raised before, in the order in which they are raised.
CREATE INDEX intentions_timed ON {memory}.intentions (tenant, priority, due_at, id)
    WHERE status = 'pending' AND (kind = 'time' OR raised);
-- Those of a cue, by a word that shows it, of a tool and of a predicate, in that order.
CREATE INDEX intentions_named ON {memory}.intentions (tenant, kind, name, priority, due_at, id)
    WHERE status = 'pending';
-- All of a status, in that order.
CREATE INDEX intentions_listed ON {memory}.intentions (tenant, status, priority, due_at, id);
-- What expires before it is closed.
CREATE INDEX intentions_expiring ON {memory}.intentions (expires_at)
    WHERE status IN ('pending', 'delivered') AND expires_at IS NOT NULL;
-- What is over, the longest first.
CREATE INDEX intentions_over ON {memory}.intentions (coalesce(closed_at, expires_at))
    WHERE coalesce(closed_at, expires_at) IS NOT NULL;
-- What waits for others.
CREATE INDEX intentions_needing ON {memory}.intentions USING gin (needs)
    WHERE cardinality(needs) > 0;
-- What one run was given.
CREATE INDEX intentions_held ON {memory}.intentions (tenant, holder) WHERE holder IS NOT NULL;
