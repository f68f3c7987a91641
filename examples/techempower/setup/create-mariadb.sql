-- The benchmark's tables as the public scripts make them: 10,000 rows of world, 12 of fortune.
--
--     mariadb -h tfb-database -u benchmarkdbuser -pbenchmarkdbpass hello_world < create-mariadb.sql
SET NAMES utf8mb4;

DROP TABLE IF EXISTS world;
CREATE TABLE world (
  id integer NOT NULL PRIMARY KEY,
  randomnumber integer NOT NULL DEFAULT 0
) ENGINE = InnoDB;
INSERT INTO world (id, randomnumber)
SELECT seq, 1 + floor(rand() * 10000) FROM seq_1_to_10000;

DROP TABLE IF EXISTS fortune;
CREATE TABLE fortune (
  id integer NOT NULL PRIMARY KEY,
  message varchar(2048) NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;
INSERT INTO fortune (id, message) VALUES
  (1, 'fortune: No such file or directory'),
  (2, 'A computer scientist is someone who fixes things that aren''t broken.'),
  (3, 'After enough decimal places, nobody gives a damn.'),
  (4, 'A bad random number generator: 1, 1, 1, 1, 1, 4.33e+67, 1, 1, 1'),
  (5, 'A computer program does what you tell it to do, not what you want it to do.'),
  (6, 'Emacs is a nice operating system, but I prefer UNIX. — Tom Christaensen'),
  (7, 'Any program that runs right is obsolete.'),
  (8, 'A list is only as strong as its weakest link. — Donald Knuth'),
  (9, 'Feature: A bug with seniority.'),
  (10, 'Computers make very fast, very accurate mistakes.'),
  (11, '<script>alert("This should not be displayed in a browser alert box.");</script>'),
  (12, 'フレームワークのベンチマーク');
