-- That a receipt of a forgetting was given, by a digest of all that it says; unless nothing is logged.
CREATE FUNCTION {memory}.audit_receipt(receipt text, digest text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT {memory}.audit_add('receipt', '{}', {memory}.audit_who() - 'actor' || jsonb_build_object(
        'receipt', receipt, 'digest', digest))
    WHERE NOT EXISTS (
        SELECT FROM {memory}.settings s WHERE s.name = 'audit' AND s.value = 'false'
    )
$$;
REVOKE ALL ON FUNCTION {memory}.audit_receipt FROM PUBLIC;

-- Files that exports are written into, on which machine: the row goes when the file has its name.
CREATE TABLE {memory}.exports (
    tenant   text COLLATE "C" NOT NULL,
    part     text COLLATE "C" NOT NULL,
    machine  text COLLATE "C" NOT NULL,
    began_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, part)
);
