-- tables
SELECT CASE object_type WHEN 'TABLE' THEN 1 ELSE 0 END FROM user_objects WHERE object_name='marmota_migration' AND object_type IN ('TABLE','VIEW');
SELECT CASE object_type WHEN 'TABLE' THEN 1 ELSE 0 END FROM user_objects WHERE object_name='marmota_schema' AND object_type IN ('TABLE','VIEW');
SELECT CASE object_type WHEN 'TABLE' THEN 1 ELSE 0 END FROM user_objects WHERE object_name='person' AND object_type IN ('TABLE','VIEW');
SELECT CASE object_type WHEN 'TABLE' THEN 1 ELSE 0 END FROM user_objects WHERE object_name='reading' AND object_type IN ('TABLE','VIEW');
CREATE SEQUENCE "sequence:person" START WITH 1;
CREATE TABLE "person" ("id" NUMBER(19,0) DEFAULT "sequence:person".NEXTVAL NOT NULL, "name" VARCHAR2(40 CHAR) NOT NULL, "city" VARCHAR2(200 CHAR), "about" CLOB NOT NULL, "age" NUMBER(19,0) NOT NULL, "height" BINARY_DOUBLE NOT NULL, "is_member" BOOLEAN NOT NULL, "pay" NUMBER(19,4) NOT NULL, "born" TIMESTAMP(0), "wakes" VARCHAR2(15) NOT NULL, "seen" TIMESTAMP(6) NOT NULL, "data" CLOB NOT NULL, "photo" BLOB NOT NULL, "boss" NUMBER(19,0), "version" NUMBER(19,0) NOT NULL, PRIMARY KEY ("id"));
ALTER TABLE "person" ADD CONSTRAINT "reference:person:boss" FOREIGN KEY ("boss") REFERENCES "person" ("id");
CREATE UNIQUE INDEX "unique:person:name" ON "person" (translate("name",'ABCDEFGHIJKLMNOPQRSTUVWXYZ','abcdefghijklmnopqrstuvwxyz'));
CREATE INDEX "index:person:boss" ON "person" ("boss");
CREATE INDEX "index:person:city" ON "person" ("city");
CREATE TABLE "reading" ("id" RAW(16) NOT NULL, "of" NUMBER(19,0) NOT NULL, "value" BINARY_DOUBLE NOT NULL, PRIMARY KEY ("id"));
ALTER TABLE "reading" ADD CONSTRAINT "reference:reading:of" FOREIGN KEY ("of") REFERENCES "person" ("id") ON DELETE CASCADE;
CREATE INDEX "index:reading:of" ON "reading" ("of");
SELECT CASE object_type WHEN 'TABLE' THEN 1 ELSE 0 END FROM user_objects WHERE object_name='marmota_schema' AND object_type IN ('TABLE','VIEW');

-- insert
INSERT INTO "person" ("name","city","about","age","height","is_member","pay","born","wakes","seen","data","photo","boss","version") VALUES (?,?,?,?,?,CAST(? AS BOOLEAN),CAST(? AS NUMBER(19,4)),to_timestamp(?,'YYYY-MM-DD'),?,to_timestamp(?,'YYYY-MM-DD HH24:MI:SS.FF6'),?,?,?,?);
SELECT "sequence:person".CURRVAL FROM dual;

-- insert with a given key
INSERT INTO "person" ("id","name","city","about","age","height","is_member","pay","born","wakes","seen","data","photo","boss","version") VALUES (?,?,?,?,?,?,CAST(? AS BOOLEAN),CAST(? AS NUMBER(19,4)),to_timestamp(?,'YYYY-MM-DD'),?,to_timestamp(?,'YYYY-MM-DD HH24:MI:SS.FF6'),?,?,?,?);

-- insert of several rows
-- begin: Committed
INSERT INTO "person" ("name","city","about","age","height","is_member","pay","born","wakes","seen","data","photo","boss","version") VALUES (?,?,?,?,?,CAST(? AS BOOLEAN),CAST(? AS NUMBER(19,4)),to_timestamp(?,'YYYY-MM-DD'),?,to_timestamp(?,'YYYY-MM-DD HH24:MI:SS.FF6'),?,?,?,?);
SELECT "sequence:person".CURRVAL FROM dual;
INSERT INTO "person" ("name","city","about","age","height","is_member","pay","born","wakes","seen","data","photo","boss","version") VALUES (?,?,?,?,?,CAST(? AS BOOLEAN),CAST(? AS NUMBER(19,4)),to_timestamp(?,'YYYY-MM-DD'),?,to_timestamp(?,'YYYY-MM-DD HH24:MI:SS.FF6'),?,?,?,?);
SELECT "sequence:person".CURRVAL FROM dual;
INSERT INTO "person" ("name","city","about","age","height","is_member","pay","born","wakes","seen","data","photo","boss","version") VALUES (?,?,?,?,?,CAST(? AS BOOLEAN),CAST(? AS NUMBER(19,4)),to_timestamp(?,'YYYY-MM-DD'),?,to_timestamp(?,'YYYY-MM-DD HH24:MI:SS.FF6'),?,?,?,?);
SELECT "sequence:person".CURRVAL FROM dual;
INSERT INTO "person" ("name","city","about","age","height","is_member","pay","born","wakes","seen","data","photo","boss","version") VALUES (?,?,?,?,?,CAST(? AS BOOLEAN),CAST(? AS NUMBER(19,4)),to_timestamp(?,'YYYY-MM-DD'),?,to_timestamp(?,'YYYY-MM-DD HH24:MI:SS.FF6'),?,?,?,?);
SELECT "sequence:person".CURRVAL FROM dual;
INSERT INTO "person" ("name","city","about","age","height","is_member","pay","born","wakes","seen","data","photo","boss","version") VALUES (?,?,?,?,?,CAST(? AS BOOLEAN),CAST(? AS NUMBER(19,4)),to_timestamp(?,'YYYY-MM-DD'),?,to_timestamp(?,'YYYY-MM-DD HH24:MI:SS.FF6'),?,?,?,?);
SELECT "sequence:person".CURRVAL FROM dual;
-- commit

-- insert of several rows with given keys
-- begin: Committed
INSERT INTO "reading" ("id","of","value") VALUES (?,?,?),(?,?,?),(?,?,?),(?,?,?);
INSERT INTO "reading" ("id","of","value") VALUES (?,?,?);
-- commit

-- update
UPDATE "person" SET "name"=?,"city"=?,"about"=?,"age"=?,"height"=?,"is_member"=CAST(? AS BOOLEAN),"pay"=CAST(? AS NUMBER(19,4)),"born"=to_timestamp(?,'YYYY-MM-DD'),"wakes"=?,"seen"=to_timestamp(?,'YYYY-MM-DD HH24:MI:SS.FF6'),"data"=?,"photo"=?,"boss"=?,"version"="version"+1 WHERE "id"=? AND "version"=?;
SELECT "version" FROM "person" WHERE "id"=?;

-- increment
-- begin: Committed
UPDATE "person" SET "pay"="pay"+CAST(? AS NUMBER(19,4)),"version"="version"+1 WHERE "id"=? AND "pay" BETWEEN CAST(? AS NUMBER(19,4)) AND CAST(? AS NUMBER(19,4));
SELECT "version" FROM "person" WHERE "id"=?;
SELECT "pay" FROM "person" WHERE "id"=?;
-- commit

-- get
SELECT "id","name","city","about","age","height","is_member","pay","born","wakes","seen","data","boss","version" FROM "person" WHERE "id"=?;

-- list
SELECT "id","name","city","about","age","height","is_member","pay","born","wakes","seen","data","boss","version" FROM "person" WHERE ("age">=? AND instr(translate("name",'ABCDEFGHIJKLMNOPQRSTUVWXYZ','abcdefghijklmnopqrstuvwxyz'),?)>0 AND instr(translate("city",'ABCDEFGHIJKLMNOPQRSTUVWXYZ','abcdefghijklmnopqrstuvwxyz'),?)=1 AND "pay"<CAST(? AS NUMBER(19,4)) AND ("born" IS NULL OR "is_member"=CAST(? AS BOOLEAN)) AND translate("name",'ABCDEFGHIJKLMNOPQRSTUVWXYZ','abcdefghijklmnopqrstuvwxyz') IN (?,?)) ORDER BY "city" DESC NULLS LAST,"id" DESC FETCH FIRST ? ROWS ONLY;

-- count
SELECT count(*) FROM "person" WHERE ("age">=? AND instr(translate("name",'ABCDEFGHIJKLMNOPQRSTUVWXYZ','abcdefghijklmnopqrstuvwxyz'),?)>0 AND instr(translate("city",'ABCDEFGHIJKLMNOPQRSTUVWXYZ','abcdefghijklmnopqrstuvwxyz'),?)=1 AND "pay"<CAST(? AS NUMBER(19,4)) AND ("born" IS NULL OR "is_member"=CAST(? AS BOOLEAN)) AND translate("name",'ABCDEFGHIJKLMNOPQRSTUVWXYZ','abcdefghijklmnopqrstuvwxyz') IN (?,?));

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
