-- Cues are found by stems now: of one that was kept before, each query looks at it.
UPDATE {memory}.intentions SET name = '', words = '{}' WHERE kind = 'cue';
