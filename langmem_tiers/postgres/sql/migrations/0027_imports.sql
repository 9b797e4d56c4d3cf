-- How far the import of an export has come: the row goes when it has ended.
CREATE TABLE {memory}.imports (
    tenant   text COLLATE "C" PRIMARY KEY,
    export   text COLLATE "C" NOT NULL,
    -- Rows of the file that are in the database.
    done     bigint NOT NULL,
    -- What is added to each id of the file.
    shift    bigint NOT NULL,
    -- Who answers for the file; NULL is whoever runs the import.
    source   text COLLATE "C",
    readmit  boolean NOT NULL,
    began_at timestamptz NOT NULL
);

-- Ids for an import, which the owner of the sequence alone may take so. Until the transaction ends
-- nobody draws one, and whoever had drawn one has committed it before: so both of them are brief.
CREATE FUNCTION {memory}.pass_ids(most bigint) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    ALTER SEQUENCE {memory}.memory_ids NO CYCLE;
    RETURN setval('{memory}.memory_ids', greatest(s.last_value, most)) FROM {memory}.memory_ids s;
END
$$;
CREATE FUNCTION {memory}.draw_ids(many bigint) RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    ALTER SEQUENCE {memory}.memory_ids NO CYCLE;
    RETURN setval('{memory}.memory_ids', s.last_value + many) - many FROM {memory}.memory_ids s;
END
$$;
REVOKE ALL ON FUNCTION {memory}.pass_ids, {memory}.draw_ids FROM PUBLIC;
