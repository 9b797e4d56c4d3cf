-- One moment of the database, for as long as the transaction lasts; floats and times in full. It is the
-- first of the transaction.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL extra_float_digits = 1;
SET LOCAL bytea_output = 'hex';
