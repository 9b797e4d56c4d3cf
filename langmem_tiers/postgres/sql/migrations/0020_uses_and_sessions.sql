-- In which session a run was shown a memory, and whether its answer took it up; NULL is not known.
ALTER TABLE {memory}.exposures
    ADD COLUMN session text COLLATE "C",
    ADD COLUMN used boolean;
