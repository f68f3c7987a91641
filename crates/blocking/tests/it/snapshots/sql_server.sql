-- tables
SELECT CASE type WHEN 'U' THEN 1 ELSE 0 END FROM sys.objects WHERE name='marmota_migration' AND schema_id=schema_id();
SELECT CASE type WHEN 'U' THEN 1 ELSE 0 END FROM sys.objects WHERE name='marmota_schema' AND schema_id=schema_id();
SELECT CASE type WHEN 'U' THEN 1 ELSE 0 END FROM sys.objects WHERE name='person' AND schema_id=schema_id();
SELECT CASE type WHEN 'U' THEN 1 ELSE 0 END FROM sys.objects WHERE name='reading' AND schema_id=schema_id();
CREATE SEQUENCE "sequence:person" AS bigint START WITH 1 INCREMENT BY 1;
CREATE TABLE "person" ("id" bigint NOT NULL DEFAULT (NEXT VALUE FOR "sequence:person"), "name" nvarchar(40) COLLATE Latin1_General_100_BIN2 NOT NULL, "fold:name" AS (translate("name",'ABCDEFGHIJKLMNOPQRSTUVWXYZ','abcdefghijklmnopqrstuvwxyz')) PERSISTED, "city" nvarchar(200) COLLATE Latin1_General_100_BIN2 NULL, "about" nvarchar(max) COLLATE Latin1_General_100_BIN2 NOT NULL, "age" bigint NOT NULL, "height" float NOT NULL, "is_member" bit NOT NULL, "pay" decimal(19,4) NOT NULL, "born" date NULL, "wakes" time(6) NOT NULL, "seen" datetime2(6) NOT NULL, "data" nvarchar(max) COLLATE Latin1_General_100_BIN2 NOT NULL, "photo" varbinary(max) NOT NULL, "boss" bigint NULL, "version" bigint NOT NULL, PRIMARY KEY ("id"));
ALTER TABLE "person" ADD CONSTRAINT "reference:person:boss" FOREIGN KEY ("boss") REFERENCES "person" ("id");
CREATE UNIQUE INDEX "unique:person:name" ON "person" ("fold:name");
CREATE INDEX "index:person:boss" ON "person" ("boss");
CREATE INDEX "index:person:city" ON "person" ("city");
CREATE TABLE "reading" ("id" binary(16) NOT NULL, "of" bigint NOT NULL, "value" float NOT NULL, PRIMARY KEY ("id"));
ALTER TABLE "reading" ADD CONSTRAINT "reference:reading:of" FOREIGN KEY ("of") REFERENCES "person" ("id") ON DELETE CASCADE;
CREATE INDEX "index:reading:of" ON "reading" ("of");
SELECT CASE type WHEN 'U' THEN 1 ELSE 0 END FROM sys.objects WHERE name='marmota_schema' AND schema_id=schema_id();

-- insert
INSERT INTO "person" ("name","city","about","age","height","is_member","pay","born","wakes","seen","data","photo","boss","version") OUTPUT INSERTED."id" VALUES (?,?,?,?,?,?,CAST(? AS decimal(19,4)),CAST(? AS date),CAST(? AS time(6)),CAST(? AS datetime2(6)),?,?,?,?);

-- insert with a given key
INSERT INTO "person" ("id","name","city","about","age","height","is_member","pay","born","wakes","seen","data","photo","boss","version") VALUES (?,?,?,?,?,?,?,CAST(? AS decimal(19,4)),CAST(? AS date),CAST(? AS time(6)),CAST(? AS datetime2(6)),?,?,?,?);

-- insert of several rows
-- begin: Committed
INSERT INTO "person" ("name","city","about","age","height","is_member","pay","born","wakes","seen","data","photo","boss","version") OUTPUT INSERTED."id" VALUES (?,?,?,?,?,?,CAST(? AS decimal(19,4)),CAST(? AS date),CAST(? AS time(6)),CAST(? AS datetime2(6)),?,?,?,?),(?,?,?,?,?,?,CAST(? AS decimal(19,4)),CAST(? AS date),CAST(? AS time(6)),CAST(? AS datetime2(6)),?,?,?,?),(?,?,?,?,?,?,CAST(? AS decimal(19,4)),CAST(? AS date),CAST(? AS time(6)),CAST(? AS datetime2(6)),?,?,?,?),(?,?,?,?,?,?,CAST(? AS decimal(19,4)),CAST(? AS date),CAST(? AS time(6)),CAST(? AS datetime2(6)),?,?,?,?);
INSERT INTO "person" ("name","city","about","age","height","is_member","pay","born","wakes","seen","data","photo","boss","version") OUTPUT INSERTED."id" VALUES (?,?,?,?,?,?,CAST(? AS decimal(19,4)),CAST(? AS date),CAST(? AS time(6)),CAST(? AS datetime2(6)),?,?,?,?);
-- commit

-- insert of several rows with given keys
-- begin: Committed
INSERT INTO "reading" ("id","of","value") VALUES (?,?,?),(?,?,?),(?,?,?),(?,?,?);
INSERT INTO "reading" ("id","of","value") VALUES (?,?,?);
-- commit

-- update
UPDATE "person" SET "name"=?,"city"=?,"about"=?,"age"=?,"height"=?,"is_member"=?,"pay"=CAST(? AS decimal(19,4)),"born"=CAST(? AS date),"wakes"=CAST(? AS time(6)),"seen"=CAST(? AS datetime2(6)),"data"=?,"photo"=?,"boss"=?,"version"="version"+1 OUTPUT INSERTED."version" WHERE "id"=? AND "version"=?;

-- increment
-- begin: Committed
UPDATE "person" SET "pay"="pay"+CAST(? AS decimal(19,4)),"version"="version"+1 OUTPUT INSERTED."version" WHERE "id"=? AND "pay" BETWEEN CAST(? AS decimal(19,4)) AND CAST(? AS decimal(19,4));
SELECT "pay" FROM "person" WHERE "id"=?;
-- commit

-- get
SELECT "id","name","city","about","age","height","is_member","pay","born","wakes","seen","data","boss","version" FROM "person" WHERE "id"=?;

-- list
SELECT "id","name","city","about","age","height","is_member","pay","born","wakes","seen","data","boss","version" FROM "person" WHERE ("age">=? AND charindex(?,"fold:name")>0 AND charindex(?,translate("city",'ABCDEFGHIJKLMNOPQRSTUVWXYZ','abcdefghijklmnopqrstuvwxyz'))=1 AND "pay"<CAST(? AS decimal(19,4)) AND ("born" IS NULL OR "is_member"=?) AND "fold:name" IN (?,?)) ORDER BY "city" DESC,"id" DESC OFFSET 0 ROWS FETCH NEXT ? ROWS ONLY;

-- count
SELECT count(*) FROM "person" WHERE ("age">=? AND charindex(?,"fold:name")>0 AND charindex(?,translate("city",'ABCDEFGHIJKLMNOPQRSTUVWXYZ','abcdefghijklmnopqrstuvwxyz'))=1 AND "pay"<CAST(? AS decimal(19,4)) AND ("born" IS NULL OR "is_member"=?) AND "fold:name" IN (?,?));

-- delete
DELETE FROM "reading" WHERE "id"=?;

-- delete by a filter
DELETE FROM "reading" WHERE "value">?;

-- transaction
-- begin: Serializable
SAVE TRANSACTION m1;
INSERT INTO "reading" ("id","of","value") VALUES (?,?,?);
ROLLBACK TRANSACTION m1;
-- commit
