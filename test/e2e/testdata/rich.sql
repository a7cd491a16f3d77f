-- Data of every kind that a backup could lose or change. It is loaded into the claim's database.
SET NAMES utf8mb4;
SET PERSIST max_connections = 123;

CREATE DATABASE shop CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_as_cs;
CREATE DATABASE legacy CHARACTER SET latin1;
CREATE DATABASE `odd name/with "quotes"`;
CREATE DATABASE bare;

-- Accounts: roles in roles, grants on columns and routines, limits, a lock, a second password.
CREATE ROLE reader, writer, boss@localhost;
GRANT SELECT ON shop.* TO reader;
GRANT reader TO writer;
GRANT INSERT, UPDATE, DELETE ON shop.* TO writer;
GRANT ALL ON shop.* TO boss@localhost WITH GRANT OPTION;
CREATE USER app IDENTIFIED BY 'app''s "pass\\word' DEFAULT ROLE reader;
CREATE USER app@localhost IDENTIFIED BY 'another' REQUIRE SSL WITH MAX_QUERIES_PER_HOUR 1000 MAX_USER_CONNECTIONS 7 PASSWORD EXPIRE INTERVAL 180 DAY PASSWORD HISTORY 5;
CREATE USER gone@`10.0.0.%` IDENTIFIED BY 'locked' ACCOUNT LOCK COMMENT 'left in ☃';
CREATE USER turning IDENTIFIED BY 'first';
ALTER USER turning IDENTIFIED BY 'second' RETAIN CURRENT PASSWORD;
GRANT reader, writer TO app, app@localhost;
GRANT RELOAD, BACKUP_ADMIN, SYSTEM_VARIABLES_ADMIN ON *.* TO app@localhost WITH GRANT OPTION;

USE shop;

CREATE TABLE customers (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  first VARCHAR(40) NOT NULL, last VARCHAR(40) NOT NULL,
  full VARCHAR(81) GENERATED ALWAYS AS (CONCAT(first, ' ', last)) STORED,
  initials CHAR(2) GENERATED ALWAYS AS (CONCAT(LEFT(first, 1), LEFT(last, 1))) VIRTUAL,
  born DATE, seen TIMESTAMP(6) NULL, note TEXT, secret INT INVISIBLE DEFAULT 7,
  CONSTRAINT adult CHECK (born IS NULL OR born < '2015-01-01'),
  UNIQUE KEY (full), KEY ((LOWER(last))), FULLTEXT KEY (note)
) AUTO_INCREMENT = 1000 COMMENT 'ünïcödé';
INSERT INTO customers (first, last, born, seen, note) VALUES
  ('Zoë', 'Ångström', '1970-01-01', '2001-02-03 04:05:06.789012', 'snow ☃ and a pile 💩'),
  ('名前', '例', NULL, NULL, '𠜎𠜱𠝹 👩‍👩‍👧‍👦 🏴󠁧󠁢󠁳󠁣󠁴󠁿'),
  ('O''Brien', 'Back\\slash', '1999-12-31', '2038-01-19 03:14:07', 'a\ttab, a\nline, a \0 zero'),
  ('', ' ', '0001-01-01', '1970-01-01 00:00:01', '');

CREATE TABLE orders (
  id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, customer BIGINT UNSIGNED NOT NULL,
  total DECIMAL(30,10) NOT NULL, state ENUM('new','paid','sent') NOT NULL DEFAULT 'new', flags SET('a','b','c'), bits BIT(17),
  CONSTRAINT of_customer FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE CASCADE ON UPDATE RESTRICT
);
INSERT INTO orders (customer, total, state, flags, bits)
  SELECT id, id * 1.0000000001, 'paid', 'a,c', b'10101010101010101' FROM customers;

CREATE TABLE documents (
  id INT PRIMARY KEY, doc JSON NOT NULL, tag VARCHAR(20) AS (doc->>'$.tag') VIRTUAL,
  KEY (tag), KEY many ((CAST(doc->'$.numbers' AS UNSIGNED ARRAY)))
);
INSERT INTO documents (id, doc) VALUES
  (1, '{"tag": "first", "numbers": [1, 2, 3], "deep": {"a": [null, true, 1.5e300, "\\u2603"]}}'),
  (2, '{"tag": "💩", "numbers": [], "big": 18446744073709551615}'),
  (3, JSON_OBJECT('at', CAST('2020-02-29 12:00:00.000001' AS DATETIME(6)), 'raw', CAST(x'00ff' AS BINARY)));

CREATE TABLE places (
  id INT PRIMARY KEY, at POINT NOT NULL SRID 4326, area GEOMETRY NULL, flat POLYGON NOT NULL SRID 0,
  SPATIAL KEY (at), SPATIAL KEY (flat)
);
INSERT INTO places VALUES
  (1, ST_GeomFromText('POINT(48.2 16.37)', 4326), ST_GeomFromText('MULTILINESTRING((0 0,1 1),(2 2,3 3))'), ST_GeomFromText('POLYGON((0 0,9 0,9 9,0 9,0 0),(1 1,2 1,2 2,1 2,1 1))')),
  (2, ST_GeomFromText('POINT(-89.9 179.9)', 4326), NULL, ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))'));

CREATE TABLE blobs (
  id INT PRIMARY KEY, b BINARY(16), v VARBINARY(300), l LONGBLOB, vec VECTOR(3)
) ROW_FORMAT = COMPRESSED;
INSERT INTO blobs VALUES
  (1, x'00', x'', REPEAT(x'00', 70000), STRING_TO_VECTOR('[1,2.5,-3]')),
  (2, x'ffffffffffffffffffffffffffffffff', x'270a0d5c1a22', NULL, NULL),
  (3, UNHEX(LEFT(SHA2('b', 256), 32)), x'c328', RANDOM_BYTES(1000), NULL);

CREATE TABLE vacant (id INT PRIMARY KEY, what VARCHAR(10)) COMMENT 'without a row';

CREATE TABLE measured (
  at DATE NOT NULL, sensor INT NOT NULL, value DOUBLE, PRIMARY KEY (at, sensor)
) PARTITION BY RANGE COLUMNS (at) SUBPARTITION BY HASH (sensor) SUBPARTITIONS 2 (
  PARTITION old VALUES LESS THAN ('2000-01-01'), PARTITION mid VALUES LESS THAN ('2020-01-01'), PARTITION new VALUES LESS THAN (MAXVALUE)
);
INSERT INTO measured VALUES ('1999-12-31', 1, PI()), ('2000-01-01', 1, -0.0), ('2019-12-31', 2, 1.7976931348623157e308), ('2030-01-01', 3, NULL);

-- 100,000 rows, some of which are changed and deleted again, so that there is something to undo and purge.
CREATE TABLE many (
  id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, k CHAR(40) NOT NULL, v VARCHAR(200) NOT NULL, at DATETIME(3) NOT NULL, KEY (k)
);
SET SESSION cte_max_recursion_depth = 200000;
INSERT INTO many (k, v, at)
  WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 110000)
  SELECT LEFT(SHA2(i, 256), 40), REPEAT(CHAR(0xF0A09C8E + i % 40 USING utf8mb4), 1 + i % 50), TIMESTAMPADD(SECOND, i * 37, '2000-01-01 00:00:00.123') FROM n;
UPDATE many SET v = CONCAT(v, '!') WHERE id % 7 = 0;
DELETE FROM many WHERE id > 100000;
ALTER TABLE many AUTO_INCREMENT = 200000; -- What a long INSERT took in advance does not outlive a restart.

CREATE TABLESPACE shared ADD DATAFILE 'shared.ibd' ENGINE = InnoDB;
CREATE TABLE one (id INT PRIMARY KEY) TABLESPACE shared;
INSERT INTO one VALUES (1), (2);
CREATE TABLE two (id INT PRIMARY KEY, txt TINYTEXT) TABLESPACE shared;
INSERT INTO two VALUES (3, 'three');

-- Tables of other storage engines than InnoDB have their own files.
CREATE TABLE legacy.isam (id INT PRIMARY KEY AUTO_INCREMENT, txt VARCHAR(100), FULLTEXT KEY (txt)) ENGINE = MyISAM;
INSERT INTO legacy.isam (txt) VALUES ('café'), ('naïve'), (NULL);
DELETE FROM legacy.isam WHERE id = 2;
CREATE TABLE legacy.comma (id INT NOT NULL, txt VARCHAR(100) NOT NULL) ENGINE = CSV;
INSERT INTO legacy.comma VALUES (1, 'a,"b"'), (2, '');
CREATE TABLE legacy.attic (id INT, txt TEXT) ENGINE = ARCHIVE;
INSERT INTO legacy.attic VALUES (1, REPEAT('old ', 100));

CREATE TABLE `odd name/with "quotes"`.`tábla ☃ / $1.x` (`col``umn` INT PRIMARY KEY, `Select` VARCHAR(5));
INSERT INTO `odd name/with "quotes"`.`tábla ☃ / $1.x` VALUES (1, '☃');

CREATE ALGORITHM = MERGE SQL SECURITY DEFINER VIEW paid AS SELECT id, customer, total FROM orders WHERE state = 'paid' WITH CASCADED CHECK OPTION;
CREATE SQL SECURITY INVOKER VIEW names AS SELECT c.full, COUNT(o.id) AS n FROM customers c LEFT JOIN orders o ON o.customer = c.id GROUP BY c.full;
CREATE VIEW bare.across AS SELECT * FROM shop.paid;

CREATE TABLE audit (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(100));
CREATE TABLE ticks (n INT NOT NULL);
INSERT INTO ticks VALUES (0);

DELIMITER //
CREATE FUNCTION double_of (n INT) RETURNS INT DETERMINISTIC COMMENT 'twice' RETURN 2 * n//
CREATE DEFINER = app@localhost PROCEDURE pay (IN which INT, OUT was VARCHAR(10))
  SQL SECURITY INVOKER
BEGIN
  DECLARE EXIT HANDLER FOR NOT FOUND SET was = '💩';
  SELECT state INTO was FROM orders WHERE id = which;
  UPDATE orders SET state = 'paid' WHERE id = which;
END//
CREATE TRIGGER before_order BEFORE INSERT ON orders FOR EACH ROW SET NEW.total = ROUND(NEW.total, 2)//
CREATE TRIGGER after_order AFTER INSERT ON orders FOR EACH ROW BEGIN
  INSERT INTO audit (what) VALUES (CONCAT('order ', NEW.id, ' of ', double_of(21)));
END//
CREATE TRIGGER after_order_too AFTER INSERT ON orders FOR EACH ROW PRECEDES after_order INSERT INTO audit (what) VALUES ('first')//
CREATE EVENT tick ON SCHEDULE EVERY 1 SECOND DO UPDATE shop.ticks SET n = n + 1//
CREATE EVENT yearly ON SCHEDULE EVERY 1 YEAR STARTS '2100-01-01 00:00:00' ON COMPLETION PRESERVE COMMENT 'far away' DO DELETE FROM shop.audit//
CREATE EVENT legacy.off ON SCHEDULE AT '2100-06-01 12:00:00' ON COMPLETION PRESERVE DISABLE DO SELECT 1//
DELIMITER ;

INSERT INTO orders (customer, total) VALUES (1000, 12.345);
GRANT EXECUTE ON PROCEDURE shop.pay TO app@localhost;
GRANT EXECUTE ON FUNCTION shop.double_of TO reader;
GRANT SELECT (id, full), UPDATE (note) ON shop.customers TO turning;
GRANT SELECT ON bare.across TO gone@`10.0.0.%`;
