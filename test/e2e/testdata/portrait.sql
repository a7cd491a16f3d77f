-- Prints SQL statements that print the complete content of a server. They omit the checksums of two tables: one that an event
-- changes continuously, and one with an index on an array, whose checksum changes with each restart.
SELECT 'SET NAMES utf8mb4, print_identified_with_as_hex = ON;';
SELECT CONCAT('SHOW CREATE DATABASE ', sys.quote_identifier(schema_name), ';') FROM information_schema.schemata
  WHERE schema_name NOT IN ('information_schema', 'performance_schema', 'mysql', 'sys') ORDER BY schema_name;
SELECT CONCAT('SHOW CREATE TABLE ', sys.quote_identifier(table_schema), '.', sys.quote_identifier(table_name), ';') FROM information_schema.tables
  WHERE table_schema NOT IN ('information_schema', 'performance_schema', 'mysql', 'sys') ORDER BY table_schema, table_name;
SELECT CONCAT('SELECT ', QUOTE(table_name), ', COUNT(*) FROM ', sys.quote_identifier(table_schema), '.', sys.quote_identifier(table_name), ';') FROM information_schema.tables
  WHERE table_schema NOT IN ('information_schema', 'performance_schema', 'mysql', 'sys') ORDER BY table_schema, table_name;
SELECT CONCAT('CHECKSUM TABLE ', sys.quote_identifier(table_schema), '.', sys.quote_identifier(table_name), ' EXTENDED;') FROM information_schema.tables
  WHERE table_schema NOT IN ('information_schema', 'performance_schema', 'mysql', 'sys') AND table_type = 'BASE TABLE' AND table_name NOT IN ('ticks', 'documents') ORDER BY table_schema, table_name;
SELECT CONCAT('SHOW CREATE ', routine_type, ' ', sys.quote_identifier(routine_schema), '.', sys.quote_identifier(routine_name), ';') FROM information_schema.routines
  WHERE routine_schema <> 'sys' ORDER BY routine_schema, routine_type, routine_name;
SELECT CONCAT('SHOW CREATE TRIGGER ', sys.quote_identifier(trigger_schema), '.', sys.quote_identifier(trigger_name), ';') FROM information_schema.triggers
  WHERE trigger_schema <> 'sys' ORDER BY trigger_schema, trigger_name;
SELECT CONCAT('SHOW CREATE EVENT ', sys.quote_identifier(event_schema), '.', sys.quote_identifier(event_name), ';') FROM information_schema.events
  ORDER BY event_schema, event_name;
SELECT CONCAT('SHOW CREATE USER ', QUOTE(user), '@', QUOTE(host), ';') FROM mysql.user ORDER BY user, host;
SELECT CONCAT('SHOW GRANTS FOR ', QUOTE(user), '@', QUOTE(host), ';') FROM mysql.user ORDER BY user, host;
SELECT 'SELECT * FROM mysql.default_roles ORDER BY host, user;';
SELECT 'SELECT * FROM mysql.role_edges ORDER BY from_user, to_host, to_user;';
SELECT 'SELECT user, host, user_attributes FROM mysql.user ORDER BY user, host;';
SELECT 'SELECT variable_name, variable_value FROM performance_schema.persisted_variables;';
SELECT 'SELECT @@max_connections;';
SELECT 'SELECT id, HEX(full), HEX(initials), seen, HEX(note), secret FROM shop.customers ORDER BY id;';
SELECT 'SELECT id, total, state, flags, HEX(bits) FROM shop.orders ORDER BY id;';
SELECT 'SELECT id, doc, tag FROM shop.documents ORDER BY id;';
SELECT 'SELECT id, ST_AsText(at), ST_SRID(at), ST_AsText(area), ST_AsText(flat) FROM shop.places ORDER BY id;';
SELECT 'SELECT id, HEX(b), HEX(v), SHA2(l, 256), VECTOR_TO_STRING(vec) FROM shop.blobs ORDER BY id;';
SELECT 'SELECT COUNT(*), BIT_XOR(CRC32(CONCAT_WS(0, id, k, v, at))) FROM shop.many;';
SELECT 'SELECT id FROM shop.documents WHERE 3 MEMBER OF (doc->''$.numbers'');';
SELECT 'SELECT id FROM shop.customers WHERE MATCH (note) AGAINST (''snow'');';
SELECT 'SELECT full FROM shop.names ORDER BY full;';
SELECT 'CHECK TABLE shop.many, shop.places, legacy.isam, legacy.attic;';
