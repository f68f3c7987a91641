-- Run by an administrator, once: the benchmark's user and database.
CREATE USER benchmarkdbuser WITH PASSWORD 'benchmarkdbpass';
CREATE DATABASE hello_world WITH OWNER benchmarkdbuser TEMPLATE template0 ENCODING 'UTF8';
