-- Removes everything; there is nothing older to keep it in.
DROP VIEW decoded_keys;
DROP TABLE facts;
DROP TABLE totals;
DROP TABLE keys;
DROP TABLE tags;
