//! `schema adopt`: databases of other programs are served, edited and exported, and not changed.

use marmota_postgres::{Postgres, TemporaryPostgres};
use marmota_sqlite::Sqlite;
use serde_json::{Value, json};

use crate::application::Served;
use crate::existing_databases::{MUSIC, forty_tables};
use crate::program::Folder;

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

/// Lists each table, changes a row of it, and exports it as lines of JSON and as CSV. `change` is that of a
/// table's first row; CSV is made of the tables that `has_csv` selects.
fn use_all(
    served: &Served,
    token: &str,
    folder: &Folder,
    url: &str,
    tables: &[&str],
    change: impl Fn(&str) -> Value,
    has_csv: impl Fn(&str) -> bool,
) {
    let described = served.request("GET", "/api", token, &Value::Null).1;
    let described = described["tables"].as_array().unwrap();
    for table in tables {
        let of_table = described.iter().find(|one| one["name"] == *table).unwrap();
        let path = format!("/api/{table}");
        let (status, page) = served.request("GET", &path, token, &Value::Null);
        assert_eq!(status, 200, "{table}: {page}");
        let key = &page["rows"][0][of_table["key"].as_str().unwrap()];
        let key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
        let change = change(table);
        let row = format!("{path}/{}", key.replace('%', "%25"));
        let (status, changed) = served.request("PATCH", &row, token, &change);
        assert_eq!(status, 200, "{table}: {changed}");
        let (_, now) = served.request("GET", &row, token, &Value::Null);
        for (field, value) in change.as_object().unwrap() {
            assert_eq!(now[field], *value, "{table}.{field}");
        }
        let lines = served.lines(&path, token);
        assert!(lines.contains(&now), "{table}: {lines:?}");
        // Each is a start of the program.
        if !has_csv(table) {
            continue;
        }
        let csv = folder.run(&["export", table, "--db", url, "--format", "csv"]).with(0);
        assert_eq!(csv.lines().count(), lines.len() + 1, "{table}: {csv}");
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
    assert!(said.contains("Wrote app.toml: 12 tables."), "{said}");
    for remark in [
        "Draft is left out: `Number` of its primary key may be NULL: declare it NOT NULL",
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
        "PlaylistId = { kind = \"reference\", table = \"Playlist\" }",
        "key = { kind = \"text\", role = \"key\", of = [\"PlaylistId\", \"TrackId\"] }",
        "PlaylistTrack = { kind = \"reference\", table = \"PlaylistTrack\", on_delete = \"cascade\", \
         nullable = true, computed = \"key(PlaylistId, TrackId)\" }",
        "# Draft is left out: ",
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
    let pair = json!({ "PlaylistId": 1, "TrackId": 2 });
    let (status, row) = served.request("POST", "/api/PlaylistTrack", &token, &pair);
    assert_eq!((status, &row["key"]), (201, &json!("1,2")), "{row}");
    let (status, error) = served.request("POST", "/api/PlaylistTrack", &token, &pair);
    assert_eq!(status, 409, "{error}");
    let pair = json!({ "PlaylistId": 7, "TrackId": 2 });
    let (status, error) = served.request("POST", "/api/PlaylistTrack", &token, &pair);
    assert_eq!(status, 422, "{error}");
    let vote = json!({ "PlaylistId": 1, "TrackId": 2, "Points": 7 });
    let (status, row) = served.request("POST", "/api/Vote", &token, &vote);
    assert_eq!((status, &row["PlaylistTrack"]), (201, &json!("1,2")), "{row}");
    let vote = json!({ "PlaylistId": 1, "TrackId": 7, "Points": 7 });
    let (status, error) = served.request("POST", "/api/Vote", &token, &vote);
    assert_eq!((status, &error["errors"][0]["field"]), (422, &json!("PlaylistTrack")), "{error}");
    let of_track = "/api/Vote?filter=PlaylistTrack.TrackId.Name='Dog+Eat+Dog'&expand=PlaylistTrack";
    let (_, votes) = served.request("GET", of_track, &token, &Value::Null);
    assert_eq!(votes["rows"][0]["expand"]["PlaylistTrack"]["TrackId"], 2, "{votes}");
    let row = "/api/PlaylistTrack/1,2";
    assert_eq!(served.request("DELETE", row, &token, &Value::Null).0, 204);
    assert_eq!(served.request("GET", row, &token, &Value::Null).0, 404);
    let changes = json!({
        "Album": { "Title": "Back in Black" },
        "Artist": { "Name": "ABBA" },
        "Customer": { "Level": "basic", "SupportRepId": 1 },
        "Employee": { "LastName": "Lin", "Email": "lin@example.org" },
        "Genre": { "Name": "Jazz" },
        "Invoice": { "Total": 5.5 },
        "InvoiceLine": { "Quantity": 3 },
        "MediaType": { "Name": "AAC" },
        "Playlist": { "Name": "Mine" },
        "PlaylistTrack": { "TrackId": 1 },
        "Vote": { "Points": 9 },
        "Track": { "Milliseconds": 1000, "GenreId": null },
    });
    let tables: Vec<&str> = changes.as_object().unwrap().keys().map(String::as_str).collect();
    use_all(
        &served,
        &token,
        &folder,
        "sqlite:chinook.db",
        &tables,
        |table| changes[table].clone(),
        |_| true,
    );
    drop(served);
    assert_eq!(definitions(&path), before);
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
fn a_database_of_forty_tables_in_postgresql_is_adopted() {
    let server = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    let (folder, plain) = (Folder::new(), server.make_database().unwrap());
    Postgres::from_url(&plain).unwrap().execute(&forty_tables()).unwrap();
    let before = dump(&plain);
    let args = ["schema", "adopt", &plain, "--schema", "shop", "--out", "app.toml"];
    let said = folder.run(&args).with(0);
    assert!(said.contains("Wrote app.toml: 44 tables."), "{said}");
    for remark in [
        "times is left out: field `at` of model `times`: a field of a composite key is an integer",
        "loose is left out: it has no primary key",
        "needs is left out: a row needs a value for `place`",
        "names is left out: it is a view",
        "t0.mood is left out: no kind of field has the values of the type mood",
        "t0.twice is left out: PostgreSQL computes it",
        "t0.tags is left out: no kind of field has",
        "of_pair.moods is left out: no kind of field has",
        "t0.words0 is left out: the index has an expression",
        "Order.a b is left out: a name must have",
        "Order.Größe is left out: a name must have",
        "Order Lines is left out: a name must have",
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
        "key = { kind = \"text\", role = \"key\", of = [\"a\", \"b\"] }",
        "pair = { kind = \"reference\", table = \"pair\", nullable = true, computed = \"key(a, b)\" }",
        "key_2 = { kind = \"text\", role = \"key\", of = [\"room\", \"day\", \"number\"] }",
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
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    let change = |table: &str| match table {
        "of_pair" => json!({ "a": 1, "b": 10, "pair": "1,10" }),
        "Order" => json!({ "select": "another" }),
        "pair" => json!({ "note": "changed" }),
        "visit" => json!({ "note": "changed", "room": "B,1" }),
        _ => json!({ "name": format!("row of {table}"), "state": "old", "small": 9 }),
    };
    names.extend(["of_pair", "Order", "pair", "visit"]);
    use_all(&served, &token, &folder, &url, &names, change, |table| {
        table.len() < 3 || !table.starts_with('t')
    });
    drop(served);
    assert_eq!(dump(&plain), before);
}
