-- One snapshot of the database for the whole transaction; floats and times in full precision. It
-- begins the transaction.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL extra_float_digits = 1;
SET LOCAL bytea_output = 'hex';
