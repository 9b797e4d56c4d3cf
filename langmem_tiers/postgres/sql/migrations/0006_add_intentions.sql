-- Intentions: when a prospective memory is raised, and what became of that. The row goes with its
-- memory. `trigger` is what was asked for; `kind`, `due_at`, `words` and `name` are what it is found
-- by. It is not raised before `due_at`, not after `expires_at`, and not before those it `needs` are
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
    PRIMARY KEY (tenant, id)
);
-- In the order in which they are raised.
CREATE INDEX intentions_due ON {memory}.intentions (tenant, priority, due_at, id)
    WHERE status = 'pending';
-- What one run was given.
CREATE INDEX intentions_held ON {memory}.intentions (tenant, holder) WHERE holder IS NOT NULL;
