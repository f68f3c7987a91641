-- Run by an administrator, once: the benchmark's user and database.
CREATE USER benchmarkdbuser IDENTIFIED BY 'benchmarkdbpass';
CREATE DATABASE hello_world CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;
GRANT ALL PRIVILEGES ON hello_world.* TO benchmarkdbuser;
