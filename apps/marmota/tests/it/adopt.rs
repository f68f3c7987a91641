//! `schema adopt`: databases of other programs are served, edited and exported, and not changed.

use std::fmt::Write as _;

use marmota_postgres::{Postgres, TemporaryPostgres};
use marmota_sqlite::Sqlite;
use serde_json::{Value, json};

use crate::application::Served;
use crate::program::Folder;

/// A database with the tables of a shop for music: the types and keys that SQLite's tools make.
const MUSIC: &str = r#"
CREATE TABLE [Artist] ([ArtistId] INTEGER PRIMARY KEY NOT NULL, [Name] NVARCHAR(120));
CREATE TABLE [Album] ([AlbumId] INTEGER PRIMARY KEY NOT NULL, [Title] NVARCHAR(160) NOT NULL,
  [ArtistId] INTEGER NOT NULL, FOREIGN KEY ([ArtistId]) REFERENCES [Artist] ([ArtistId]));
CREATE INDEX [IFK_AlbumArtistId] ON [Album] ([ArtistId]);
CREATE TABLE [Employee] ([EmployeeId] INTEGER PRIMARY KEY, [LastName] NVARCHAR(20) NOT NULL,
  [ReportsTo] INTEGER, [BirthDate] DATETIME, [Email] NVARCHAR(60) UNIQUE,
  FOREIGN KEY ([ReportsTo]) REFERENCES [Employee] ([EmployeeId]));
CREATE TABLE [Customer] ([CustomerId] INTEGER PRIMARY KEY, [Email] NVARCHAR(60) NOT NULL,
  [SupportRepId] INTEGER REFERENCES [Employee] ([EmployeeId]),
  [Level] TEXT NOT NULL DEFAULT 'basic' CHECK ([Level] IN ('basic', 'gold')));
CREATE TABLE [Genre] ([GenreId] INTEGER PRIMARY KEY, [Name] NVARCHAR(120) CHECK (length([Name]) > 1));
CREATE TABLE [MediaType] ([MediaTypeId] INTEGER PRIMARY KEY, [Name] NVARCHAR(120));
CREATE TABLE [Track] ([TrackId] INTEGER PRIMARY KEY, [Name] NVARCHAR(200) NOT NULL,
  [AlbumId] INTEGER REFERENCES [Album], [GenreId] INTEGER, [Milliseconds] INTEGER NOT NULL
  CHECK ([Milliseconds] >= 0), [UnitPrice] NUMERIC(10,2) NOT NULL,
  FOREIGN KEY ([GenreId]) REFERENCES [Genre] ([GenreId]) ON DELETE SET NULL);
CREATE INDEX [TrackWords] ON [Track] (lower([Name]));
CREATE UNIQUE INDEX [GoldEmail] ON [Customer] ([Email]) WHERE [Level] = 'gold';
CREATE INDEX [Odd] ON [Track] ([Milliseconds]) WHERE [Milliseconds] % 2 = 1;
CREATE TABLE [Invoice] ([InvoiceId] INTEGER PRIMARY KEY, [CustomerId] INTEGER NOT NULL
  REFERENCES [Customer] ([CustomerId]), [InvoiceDate] DATETIME NOT NULL, [Total] NUMERIC(10,2) NOT NULL);
CREATE TABLE [InvoiceLine] ([InvoiceLineId] INTEGER PRIMARY KEY, [InvoiceId] INTEGER NOT NULL
  REFERENCES [Invoice] ([InvoiceId]) ON DELETE CASCADE, [TrackId] INTEGER NOT NULL REFERENCES [Track]
  ([TrackId]), [UnitPrice] NUMERIC(10,2) NOT NULL, [Quantity] INTEGER NOT NULL DEFAULT 1);
CREATE TABLE [Playlist] ([PlaylistId] INTEGER PRIMARY KEY, [Name] NVARCHAR(120));
CREATE TABLE [PlaylistTrack] ([PlaylistId] INTEGER NOT NULL, [TrackId] INTEGER NOT NULL,
  CONSTRAINT [PK] PRIMARY KEY ([PlaylistId], [TrackId]));
CREATE VIEW [Totals] AS SELECT [CustomerId], sum([Total]) AS total FROM [Invoice] GROUP BY 1;
INSERT INTO Artist VALUES (1, 'AC/DC'), (2, NULL);
INSERT INTO Album VALUES (1, 'Let There Be Rock', 1);
INSERT INTO Employee VALUES (1, 'Adams', NULL, '1962-02-18 00:00:00', 'a@example.org'),
  (2, 'Edwards', 1, '1958-12-08', NULL);
INSERT INTO Customer VALUES (1, 'luis@example.org', 2, 'gold');
INSERT INTO Genre VALUES (1, 'Rock');
INSERT INTO MediaType VALUES (1, 'MPEG');
INSERT INTO Track VALUES (1, 'Go Down', 1, 1, 331180, 0.99), (2, 'Dog Eat Dog', 1, 1, 215196, 1);
INSERT INTO Invoice VALUES (1, 1, '2009-01-01 00:00:00', 1.98);
INSERT INTO InvoiceLine VALUES (1, 1, 1, 0.99, 1);
INSERT INTO Playlist VALUES (1, 'Music');
INSERT INTO PlaylistTrack VALUES (1, 1);
"#;

/// The definitions of a SQLite file, without those of Marmota's own tables.
fn definitions(path: &std::path::Path) -> Vec<String> {
    let engine = Sqlite::from_url(&format!("sqlite:{}", path.display())).unwrap();
    let store = marmota::prelude::Store::builder(engine).open().unwrap();
    let sql = "SELECT type||' '||name||': '||coalesce(sql,'') AS text FROM sqlite_schema \
               WHERE tbl_name NOT LIKE 'marmota%' AND tbl_name NOT LIKE 'sqlite%' ORDER BY 1";
    let found = store.sql(sql).map(|row| row.read_at::<String>(0)).run().unwrap();
    store.close().unwrap();
    found
}

/// Lists each table, and exports it as CSV.
fn list_all(served: &Served, token: &str, folder: &Folder, url: &str, tables: &[&str]) {
    for table in tables {
        let (status, page) = served.request("GET", &format!("/api/{table}"), token, &Value::Null);
        assert_eq!(status, 200, "{table}: {page}");
        let csv = folder.run(&["export", table, "--db", url, "--format", "csv"]);
        let csv = csv.with(0);
        assert!(csv.lines().count() > 1, "{table}: {csv}");
    }
}

#[test]
fn a_music_shop_in_sqlite_is_adopted() {
    let folder = Folder::new();
    let path = folder.0.path().join("chinook.db");
    let engine = Sqlite::from_url(&format!("sqlite:{}", path.display())).unwrap();
    engine.execute(MUSIC).unwrap();
    drop(engine);
    let before = definitions(&path);

    let ended = folder.run(&["schema", "adopt", "sqlite:chinook.db", "--out", "app.toml"]);
    let said = ended.with(0);
    assert!(said.contains("Wrote app.toml: 10 tables."), "{said}");
    for remark in [
        "PlaylistTrack is left out: its primary key has several columns (PlaylistId, TrackId)",
        "Totals is left out: it is a view",
        "Track.TrackWords is left out: the index has an expression",
        "Track.Odd is left out: the index has an expression",
    ] {
        assert!(said.contains(remark), "{said}");
    }
    let app = std::fs::read_to_string(folder.0.path().join("app.toml")).unwrap();
    for line in [
        "ArtistId = { kind = \"reference\", table = \"Artist\", index = true }",
        "Level = { kind = \"enum\", values = [\"basic\", \"gold\"], default = \"basic\" }",
        "Name = { kind = \"text\", max = 120, nullable = true, length = { min = 2 } }",
        "InvoiceId = { kind = \"reference\", table = \"Invoice\", on_delete = \"cascade\" }",
        "Milliseconds = { kind = \"integer\", range = { min = 0 } }",
        "UnitPrice = \"float\"",
        "indexes = [{ fields = [\"Email\"], unique = true, where = \"Level = 'gold'\" }]",
        "Quantity = { kind = \"integer\", default = 1 }",
        "# PlaylistTrack is left out: ",
    ] {
        assert!(app.contains(line), "{line} in:\n{app}");
    }
    let again = folder.run(&["schema", "adopt", "sqlite:chinook.db", "--out", "app.toml"]).with(1);
    assert!(again.contains("cannot write app.toml"), "{again}");

    folder.run(&["schema", "check"]).with(0);
    let said = folder.run(&["schema", "diff", "--db", "sqlite:chinook.db"]).with(0);
    assert!(said.contains("The database matches the models."), "{said}");
    let served = Served::start(&folder, &["--auth", "--db", "sqlite:chinook.db"]);
    let token = served.log_in();
    let track = json!({ "UnitPrice": 2, "Name": "Go Up" });
    let (status, row) = served.request("PATCH", "/api/Track/1", &token, &track);
    assert_eq!(status, 200, "{row}");
    assert_eq!(served.request("GET", "/api/Track/1", &token, &Value::Null).1["UnitPrice"], 2.0);
    let invoice = |date: &str| json!({ "CustomerId": 1, "InvoiceDate": date, "Total": 3.5 });
    let (status, row) = served.request("POST", "/api/Invoice", &token, &invoice("2026-11-27"));
    assert_eq!(status, 201, "{row}");
    // As a number, SQLite would not store it as the text that it is.
    let (status, row) = served.request("POST", "/api/Invoice", &token, &invoice("2026"));
    assert_eq!(status, 422, "{row}");
    let (status, row) =
        served.request("PATCH", "/api/Customer/1", &token, &json!({ "Level": "silver" }));
    assert_eq!(status, 422, "{row}");
    let tables = [
        "Album",
        "Artist",
        "Customer",
        "Employee",
        "Genre",
        "Invoice",
        "InvoiceLine",
        "MediaType",
        "Playlist",
        "Track",
    ];
    list_all(&served, &token, &folder, "sqlite:chinook.db", &tables);
    drop(served);
    assert_eq!(definitions(&path), before);
}

/// Forty tables with columns of many types, which refer to each other in a chain.
fn forty_tables() -> String {
    let mut sql = String::from(
        "CREATE SCHEMA shop; SET search_path TO shop; CREATE TYPE mood AS ENUM ('sad','glad');\n",
    );
    for n in 0..40 {
        let key = match n % 4 {
            0 => "id serial PRIMARY KEY",
            1 => "id uuid PRIMARY KEY DEFAULT gen_random_uuid()",
            2 => "id varchar(20) PRIMARY KEY",
            _ => "id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
        };
        let parent = match n {
            0 => "parent integer".to_owned(),
            n => {
                let kind = match (n - 1) % 4 {
                    0 => "integer",
                    1 => "uuid",
                    2 => "varchar(20)",
                    _ => "bigint",
                };
                format!("parent {kind} REFERENCES t{} ON DELETE SET NULL", n - 1)
            }
        };
        let _ = writeln!(
            sql,
            "CREATE TABLE t{n} ({key}, {parent}, name varchar(40) NOT NULL CHECK (length(name) >= 2), \
             state text NOT NULL DEFAULT 'new' CHECK (state IN ('new','old')), \
             price numeric(10,2) NOT NULL DEFAULT 0 CHECK (price >= 0), born date, at timestamp, \
             made timestamptz NOT NULL DEFAULT now(), details jsonb, plain json, ratio double precision, \
             small smallint CHECK (small BETWEEN 1 AND 9), yes boolean DEFAULT true, bytes bytea, \
             clock time, mood mood, place point, tags text[], twice integer GENERATED ALWAYS AS \
             (small * 2) STORED, UNIQUE (name, born)); CREATE INDEX by_state{n} ON t{n} (state); \
             CREATE INDEX words{n} ON t{n} (lower(name)); CREATE UNIQUE INDEX open{n} ON t{n} (small) \
             WHERE born IS NULL AND state <> 'old' AND yes;"
        );
        let (column, value) = match n % 4 {
            2 => ("id, ", "'key', "),
            _ => ("", ""),
        };
        let _ = writeln!(
            sql,
            "INSERT INTO t{n} ({column}name, at, details, plain, small, bytes, clock, mood, place, tags) \
             VALUES ({value}'row', '2026-01-02 03:04:05', '{{\"a\": [1, 2]}}', '[ 1 ]', 3, '\\x00ff', \
             '10:00', 'glad', '(1,2)', '{{a}}');"
        );
    }
    sql + "CREATE TABLE pair (a integer, b integer, PRIMARY KEY (a, b)); CREATE TABLE loose (a integer); \
           CREATE TABLE needs (id bigint PRIMARY KEY, place point NOT NULL); \
           CREATE VIEW names AS SELECT name FROM t0;"
}

fn dump(url: &str) -> String {
    let output = std::process::Command::new("pg_dump")
        .args(["--schema-only", "--no-owner", "--exclude-table=*.marmota*", "--schema=shop", url])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    // Some versions write a random word against injection.
    let own = |line: &&str| !line.contains("marmota") && !line.starts_with("\\");
    text.lines().filter(own).collect::<Vec<_>>().join("\n")
}

#[test]
fn forty_tables_in_postgresql_are_adopted() {
    let server = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    let (folder, plain) = (Folder::new(), server.make_database().unwrap());
    Postgres::from_url(&plain).unwrap().execute(&forty_tables()).unwrap();
    let before = dump(&plain);
    let args = ["schema", "adopt", &plain, "--schema", "shop", "--out", "app.toml"];
    let said = folder.run(&args).with(0);
    assert!(said.contains("Wrote app.toml: 40 tables."), "{said}");
    for remark in [
        "pair is left out: its primary key has several columns (a, b)",
        "loose is left out: it has no primary key",
        "needs is left out: a row needs a value for `place`",
        "names is left out: it is a view",
        "t0.mood is left out: no kind of field has the values of the type mood",
        "t0.twice is left out: PostgreSQL computes it",
        "t0.words0 is left out: the index has an expression",
    ] {
        assert!(said.contains(remark), "{remark} in {said}");
    }
    let app = std::fs::read_to_string(folder.0.path().join("app.toml")).unwrap();
    for line in [
        "id = { kind = \"uuid\", role = \"key\" }",
        "parent = { kind = \"reference\", table = \"t1\", on_delete = \"set_null\", nullable = true }",
        "name = { kind = \"text\", max = 40, length = { min = 2 } }",
        "state = { kind = \"enum\", values = [\"new\", \"old\"], index = true, default = \"new\" }",
        "price = { kind = \"currency\", default = \"0\", range = { min = \"0\" } }",
        "made = { kind = \"timestamp\", role = \"created_at\" }",
        "{ fields = [\"name\", \"born\"], unique = true }",
        "{ fields = [\"small\"], unique = true, \
         where = \"born = null and state != 'old' and yes = true\" }",
    ] {
        assert!(app.contains(line), "{line} in:\n{}", &app[..3_000]);
    }
    let sign = if plain.contains('?') { '&' } else { '?' };
    let url = format!("{plain}{sign}schema=shop");
    let said = folder.run(&["schema", "diff", "--db", &url]).with(0);
    assert!(said.contains("The database matches the models."), "{said}");
    let served = Served::start(&folder, &["--auth", "--db", &url]);
    let token = served.log_in();
    let patch = json!({ "price": "1.25", "details": { "b": 1 }, "at": "2026-11-27T01:02:03Z" });
    let (status, row) = served.request("PATCH", "/api/t0/1", &token, &patch);
    assert_eq!(status, 200, "{row}");
    let (_, row) = served.request("GET", "/api/t0/1", &token, &Value::Null);
    assert_eq!(row["details"], json!({ "b": 1 }));
    assert_eq!(row["plain"], json!([1]));
    let (status, error) =
        served.request("PATCH", "/api/t0/1", &token, &json!({ "price": "1.255" }));
    assert_eq!(status, 422, "{error}");
    let names: Vec<String> = (0..40).map(|n| format!("t{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for table in &names {
        let (status, page) = served.request("GET", &format!("/api/{table}"), &token, &Value::Null);
        assert_eq!(status, 200, "{table}: {page}");
    }
    list_all(&served, &token, &folder, &url, &names[..4]);
    drop(served);
    assert_eq!(dump(&plain), before);
}
