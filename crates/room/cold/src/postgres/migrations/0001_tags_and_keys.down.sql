-- Removes everything; there is nothing older to keep it in.
DROP VIEW room_hashes;
DROP VIEW room_strings;
DROP VIEW room_decoded_keys;
DROP FUNCTION room_text(bytea);
DROP TABLE room_facts;
DROP TABLE room_totals;
DROP TABLE room_keys;
DROP TABLE room_tags;
