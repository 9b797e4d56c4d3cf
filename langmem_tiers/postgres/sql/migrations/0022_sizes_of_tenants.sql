-- What a large tenant held when it was last counted: estimates, which bound what is looked at.
CREATE TABLE {memory}.tenant_sizes (
    tenant     text COLLATE "C" PRIMARY KEY,
    memories   double precision NOT NULL,
    -- Words that are in more than 250 of its memories or in one of fifty, and in how many each is.
    words      text[] COLLATE "C" NOT NULL,
    counts     double precision[] NOT NULL,
    -- Namespaces that have too many vectors for exact search, and the tier of each.
    crowded    text[] COLLATE "C" NOT NULL,
    tiers      {memory}.tier[] NOT NULL
);
