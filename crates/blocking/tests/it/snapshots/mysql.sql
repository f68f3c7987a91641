-- tables
SELECT table_type='BASE TABLE' FROM information_schema.tables WHERE table_schema=database() AND table_name='marmota_migration';
SELECT get_lock(concat('marmota_migration:',left(database(),40)),120);
SELECT table_type='BASE TABLE' FROM information_schema.tables WHERE table_schema=database() AND table_name='marmota_schema';
SELECT table_type='BASE TABLE' FROM information_schema.tables WHERE table_schema=database() AND table_name='person';
SELECT table_type='BASE TABLE' FROM information_schema.tables WHERE table_schema=database() AND table_name='reading';
CREATE TABLE "person" ("id" bigint(20) NOT NULL AUTO_INCREMENT, "name" varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin NOT NULL, "fold:name" varbinary(160) GENERATED ALWAYS AS (cast(lower(convert(cast("name" as binary) using tis620)) as binary)) STORED INVISIBLE, "city" varchar(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin NULL, "about" longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin NOT NULL, "age" bigint(20) NOT NULL, "height" double NOT NULL, "is_member" tinyint(1) NOT NULL, "pay" decimal(19,4) NOT NULL, "born" date NULL, "wakes" time(6) NOT NULL, "seen" datetime(6) NOT NULL, "data" longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin NOT NULL, "photo" longblob NOT NULL, "boss" bigint(20) NULL, "version" bigint(20) NOT NULL, PRIMARY KEY ("id")) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_bin;
ALTER TABLE "person" ADD CONSTRAINT "reference:person:boss" FOREIGN KEY ("boss") REFERENCES "person" ("id");
CREATE UNIQUE INDEX "unique:person:name" ON "person" ("fold:name");
CREATE INDEX "index:person:boss" ON "person" ("boss");
CREATE INDEX "index:person:city" ON "person" ("city");
CREATE TABLE "reading" ("id" binary(16) NOT NULL, "of" bigint(20) NOT NULL, "value" double NOT NULL, PRIMARY KEY ("id")) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_bin;
ALTER TABLE "reading" ADD CONSTRAINT "reference:reading:of" FOREIGN KEY ("of") REFERENCES "person" ("id") ON DELETE CASCADE;
CREATE INDEX "index:reading:of" ON "reading" ("of");
SELECT table_type='BASE TABLE' FROM information_schema.tables WHERE table_schema=database() AND table_name='marmota_schema';
DO release_lock(concat('marmota_migration:',left(database(),40)));

-- insert
INSERT INTO "person" ("name","city","about","age","height","is_member","pay","born","wakes","seen","data","photo","boss","version") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?);
SELECT last_insert_id();

-- insert with a given key
INSERT INTO "person" ("id","name","city","about","age","height","is_member","pay","born","wakes","seen","data","photo","boss","version") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?);

-- insert of several rows
-- begin: Committed
INSERT INTO "person" ("name","city","about","age","height","is_member","pay","born","wakes","seen","data","photo","boss","version") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?),(?,?,?,?,?,?,?,?,?,?,?,?,?,?),(?,?,?,?,?,?,?,?,?,?,?,?,?,?),(?,?,?,?,?,?,?,?,?,?,?,?,?,?);
SELECT last_insert_id();
INSERT INTO "person" ("name","city","about","age","height","is_member","pay","born","wakes","seen","data","photo","boss","version") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?);
SELECT last_insert_id();
-- commit

-- insert of several rows with given keys
-- begin: Committed
INSERT INTO "reading" ("id","of","value") VALUES (?,?,?),(?,?,?),(?,?,?),(?,?,?);
INSERT INTO "reading" ("id","of","value") VALUES (?,?,?);
-- commit

-- update
UPDATE "person" SET "name"=?,"city"=?,"about"=?,"age"=?,"height"=?,"is_member"=?,"pay"=?,"born"=?,"wakes"=?,"seen"=?,"data"=?,"photo"=?,"boss"=?,"version"=last_insert_id("version"+1) WHERE "id"=? AND "version"=?;
SELECT last_insert_id();

-- increment
-- begin: Committed
UPDATE "person" SET "pay"="pay"+CAST(? AS DECIMAL(19,4)),"version"=last_insert_id("version"+1) WHERE "id"=? AND "pay" BETWEEN CAST(? AS DECIMAL(19,4)) AND CAST(? AS DECIMAL(19,4));
SELECT last_insert_id();
SELECT "pay" FROM "person" WHERE "id"=?;
-- commit

-- get
SELECT "id","name","city","about","age","height","is_member","pay","born","wakes","seen","data","boss","version" FROM "person" WHERE "id"=?;

-- list
SELECT "id","name","city","about","age","height","is_member","pay","born","wakes","seen","data","boss","version" FROM "person" WHERE ("age">=? AND locate(cast(? as binary),"fold:name")>0 AND 1=locate(cast(? as binary),cast(lower(convert(cast("city" as binary) using tis620)) as binary)) AND "pay"<CAST(? AS DECIMAL(19,4)) AND ("born" IS NULL OR "is_member"=?) AND "fold:name" IN (?,?)) ORDER BY "city" DESC,"id" DESC LIMIT ?;

-- count
SELECT count(*) FROM "person" WHERE ("age">=? AND locate(cast(? as binary),"fold:name")>0 AND 1=locate(cast(? as binary),cast(lower(convert(cast("city" as binary) using tis620)) as binary)) AND "pay"<CAST(? AS DECIMAL(19,4)) AND ("born" IS NULL OR "is_member"=?) AND "fold:name" IN (?,?));

-- delete
DELETE FROM "reading" WHERE "id"=?;

-- delete by a filter
DELETE FROM "reading" WHERE "value">?;

-- transaction
-- begin: Serializable
SAVEPOINT m1;
INSERT INTO "reading" ("id","of","value") VALUES (?,?,?);
ROLLBACK TO SAVEPOINT m1;
-- commit
