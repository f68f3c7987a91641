//! Tables that are changed while clients write: no request fails, no row is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::application::Served;
use crate::program::Folder;

/// A linear congruential generator (Knuth, MMIX), so that a run can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % count.max(1)
    }
}

/// The file as an administrator reads it, with its entity tag.
fn read(served: &Served, token: &str) -> (Value, String) {
    let (status, app, tag) = served.tagged("GET", "/api/-/app", token, None, &Value::Null);
    assert_eq!(status, 200, "{app}");
    (app, tag.unwrap())
}

/// The names of the fields that an edit may remove: clients do not use them.
fn spare(app: &Value, table: &str) -> Vec<String> {
    let fields = app["tables"][table]["fields"].as_object().unwrap();
    fields.keys().filter(|name| name.starts_with('f')).cloned().collect()
}

/// Changes the file at random. Returns the parameters that the change needs.
fn edit(app: &mut Value, number: usize, random: &mut Random) -> String {
    let names: Vec<String> = app["tables"].as_object().unwrap().keys().cloned().collect();
    let table = names[random.below(names.len())].clone();
    let fields = spare(app, &table);
    match random.below(7) {
        0 if names.len() < 12 => {
            let id = json!({ "kind": "integer", "role": "key" });
            let fields = json!({ "id": id, "name": { "kind": "text", "max": 50 } });
            app["tables"][format!("t{number}")] = json!({ "fields": fields });
        }
        1 if table != "note" => {
            app["tables"].as_object_mut().unwrap().remove(&table);
        }
        2 if !fields.is_empty() => {
            let field = &fields[random.below(fields.len())];
            app["tables"][&table]["fields"].as_object_mut().unwrap().remove(field);
            return format!("?drop={table}.{field}");
        }
        3 if !fields.is_empty() => {
            let field = &fields[random.below(fields.len())];
            let of_table = app["tables"][&table]["fields"].as_object_mut().unwrap();
            let mut moved = of_table.remove(field).unwrap();
            moved["was"] = json!(field);
            of_table.insert(format!("f{number}"), moved);
        }
        4 if !fields.is_empty() => {
            let field = &fields[random.below(fields.len())];
            let index = &mut app["tables"][&table]["fields"][field]["index"];
            *index = json!(!index.as_bool().unwrap_or(false));
        }
        _ if fields.len() < 12 => {
            let field = match random.below(3) {
                0 => json!({ "kind": "integer", "default": 7 }),
                1 => json!({ "kind": "text", "max": 20, "nullable": true }),
                _ => json!({ "kind": "boolean", "default": false }),
            };
            app["tables"][&table]["fields"][format!("f{number}")] = field;
        }
        _ => {}
    }
    String::new()
}

/// Changes the tables of a server with these options while clients write. Returns its folder, after it
/// was killed, and the number of rows.
fn change_under_load(edits: usize, words: &[&str]) -> (Folder, usize) {
    let folder = Folder::new();
    folder.run(&["new", "."]).with(0);
    let served = Arc::new(Served::start(&folder, words));
    let token = served.log_in();
    let ends = Arc::new(AtomicBool::new(false));
    let inserted = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..3)
        .map(|client| {
            let (served, token, ends) = (Arc::clone(&served), token.clone(), Arc::clone(&ends));
            let inserted = Arc::clone(&inserted);
            std::thread::spawn(move || {
                let agent = ureq::Agent::new_with_defaults();
                let mut longest = Duration::ZERO;
                for number in 0.. {
                    if ends.load(Ordering::Relaxed) {
                        break;
                    }
                    let begun = Instant::now();
                    let note = json!({ "text": format!("{client}-{number}") });
                    let url = format!("{}/api/note", served.url);
                    let bearer = format!("Bearer {token}");
                    let row = agent.post(&url).header("Authorization", &bearer).send_json(&note);
                    let row: Value = row.unwrap().body_mut().read_json().unwrap();
                    inserted.fetch_add(1, Ordering::Relaxed);
                    let url = format!("{url}/{}", row["id"]);
                    let read = agent.get(&url).header("Authorization", &bearer).call();
                    let read: Value = read.unwrap().body_mut().read_json().unwrap();
                    assert_eq!(read["text"], note["text"]);
                    longest = longest.max(begun.elapsed());
                }
                longest
            })
        })
        .collect();
    let mut random = Random(42);
    let (mut applied, mut early, mut middle) = (0, 0, 0);
    for number in 0..edits {
        // The first changes fill caches and pools.
        match number {
            _ if number == edits / 10 => early = served.memory_bytes(),
            _ if number == edits / 2 => middle = served.memory_bytes(),
            _ => {}
        }
        let (mut app, tag) = read(&served, &token);
        let parameters = edit(&mut app, number, &mut random);
        let path = format!("/api/-/app{parameters}");
        let (status, answer, _) = served.tagged("PUT", &path, &token, Some(&tag), &app);
        // A new table can have the name of one that was removed, with other columns.
        assert!(matches!(status, 200 | 400 | 409), "{number}: {status} {answer}\n{app:#}");
        applied += usize::from(status == 200);
    }
    ends.store(true, Ordering::Relaxed);
    let longest = clients.into_iter().map(|client| client.join().unwrap()).max().unwrap();
    let inserted = inserted.load(Ordering::Relaxed);
    let (_, count) = served.request("GET", "/api/note?limit=1&count=true", &token, &Value::Null);
    assert_eq!(count["count"], inserted, "{count}");
    let metrics = ureq::get(format!("{}/metrics", served.url))
        .header("Authorization", format!("Bearer {token}"))
        .call();
    let metrics = metrics.unwrap().body_mut().read_to_string().unwrap();
    let stores = metrics.matches("# TYPE marmota_engine_commits_total").count();
    assert_eq!(stores, 1, "numbers of closed stores");
    let after = served.memory_bytes();
    println!(
        "{applied} of {edits} changes; {inserted} inserts and reads; longest request {} ms; \
         memory {} MB, {} MB, {} MB",
        longest.as_millis(),
        early >> 20,
        middle >> 20,
        after >> 20,
    );
    assert!(applied * 10 >= edits * 9, "{applied} of {edits} changes were made");
    // The store is opened at every change: what is not freed would add up.
    assert!(after < early * 2 + (64 << 20), "{early} bytes at the start, {after} at the end");
    (folder, inserted)
}

#[test]
fn no_request_fails_and_no_row_is_lost_while_tables_change() {
    change_under_load(25, &[]);
}

#[test]
#[ignore = "takes minutes; `cargo xtask soak live-tables`"]
fn no_request_fails_while_tables_change_1000_times() {
    change_under_load(1_000, &[]);
}

/// The server is killed after the last write is acknowledged: its target has all of them, and the
/// tables. Returns the number of snapshots.
fn restore_after_changes(db: &str, restored: &str) -> usize {
    let target = tempfile::tempdir().unwrap();
    let url = format!("file://{}", target.path().display());
    let words = ["--db", db, "--replicate-to", &*url, "--replicate-mode", "sync"];
    let (folder, rows) = change_under_load(12, &words);
    folder.run(&["restore", "--from", &url, "--db", restored]).with(0);
    folder.run(&["schema", "diff", "--db", restored]).with(0);
    let exported = folder.run(&["export", "note", "--db", restored, "--to", "notes.csv"]).with(0);
    assert!(exported.contains(&format!("notes.csv: {rows} rows")), "{rows}: {exported}");
    std::fs::read_dir(target.path().join("snapshots")).unwrap().count()
}

#[test]
fn a_replicated_sqlite_database_changes_without_another_snapshot() {
    assert_eq!(restore_after_changes("sqlite:rows.db", "sqlite:restored.db"), 1);
}

#[test]
fn a_replicated_memory_database_changes_under_load() {
    restore_after_changes("memory:rows.mem?durability=full", "memory:restored.mem");
}

#[test]
fn tables_do_not_change_while_the_replication_target_fails() {
    let folder = Folder::new();
    folder.run(&["new", "."]).with(0);
    let target = folder.0.path().join("target");
    let url = format!("file://{}", target.display());
    let served = Served::start(&folder, &["--replicate-to", &url, "--replicate-window-ms", "20"]);
    let token = served.log_in();
    let note = json!({ "text": "kept" });
    assert_eq!(served.request("POST", "/api/note", &token, &note).0, 201);
    let (mut app, tag) = read(&served, &token);
    app["tables"]["note"]["fields"]["due"] = json!({ "kind": "date", "nullable": true });
    let (segments, aside) = (target.join("segments"), target.join("aside"));
    std::fs::rename(&segments, &aside).unwrap();
    std::fs::write(&segments, "").unwrap();
    let (status, answer, _) = served.tagged("PUT", "/api/-/app", &token, Some(&tag), &app);
    let detail = answer["detail"].as_str().unwrap();
    assert!(status == 503 && detail.contains("nothing was changed, try again later"), "{answer}");
    let rows = served.request("GET", "/api/note", &token, &Value::Null).1;
    assert!(rows["rows"][0]["text"] == "kept" && rows["rows"][0].get("due").is_none(), "{rows}");
    std::fs::remove_file(&segments).unwrap();
    std::fs::rename(&aside, &segments).unwrap();
    let (status, answer, _) = served.tagged("PUT", "/api/-/app", &token, Some(&tag), &app);
    assert_eq!(status, 200, "{answer}");
    let state = served.request("GET", "/api/-/replication", &token, &Value::Null).1;
    assert!(state["role"] == "primary" && state["error"].is_null(), "{state}");
    let segment = state["segment"].as_u64();
    assert_eq!(served.request("POST", "/api/note", &token, &note).0, 201);
    // The state is that of the store that was opened again.
    let deadline = Instant::now() + Duration::from_secs(60);
    while served.request("GET", "/api/-/replication", &token, &Value::Null).1["segment"].as_u64()
        <= segment
    {
        assert!(Instant::now() < deadline, "no segment after {state}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn only_administrators_change_tables_and_errors_name_the_way_out() {
    let folder = Folder::new();
    folder.run(&["new", "."]).with(0);
    let served = Served::start(&folder, &[]);
    let token = served.log_in();
    let (app, tag) = read(&served, &token);
    let put = |path: &str, tag: Option<&str>, app: &Value| {
        let (status, answer, _) = served.tagged("PUT", path, &token, tag, app);
        (status, answer["detail"].as_str().unwrap_or_default().to_owned())
    };
    for (method, body) in [("GET", &Value::Null), ("PUT", &app)] {
        assert_eq!(served.request(method, "/api/-/app", "", body).0, 401);
    }
    let user = json!({ "name": "ann", "groups": [], "is_admin": false });
    let (_, made) = served.request("POST", "/api/auth/users", &token, &user);
    let password =
        json!({ "name": "ann", "token": made["token"], "password": "correct horse ann" });
    assert_eq!(served.request("POST", "/api/auth/set-password", "", &password).0, 204);
    let login = json!({ "name": "ann", "password": "correct horse ann" });
    let (_, session) = served.request("POST", "/api/auth/login", "", &login);
    let ann = session["token"].as_str().unwrap();
    assert_eq!(served.request("GET", "/api/-/app", ann, &Value::Null).0, 403);

    let (status, detail) = put("/api/-/app", None, &app);
    assert!(status == 428 && detail.contains("`If-Match` is missing"), "{status} {detail}");
    let (status, detail) = put("/api/-/app?dry=true", Some(&tag), &app);
    assert!(status == 400 && detail.contains("there are: dry_run, allow_loss, drop"), "{detail}");
    let (status, detail) = put("/api/-/app", Some("\"0\""), &app);
    assert!(status == 412 && detail.contains("after `admin` had read it"), "{status} {detail}");
    let mut faulty = app.clone();
    faulty["tables"]["note"]["fields"]["due"] = json!({ "kind": "day" });
    let (status, detail) = put("/api/-/app", Some(&tag), &faulty);
    assert!(status == 400 && detail.contains("unknown variant `day`, expected one of"), "{detail}");
    let mut faulty = app.clone();
    faulty["groups"]["everyone"]["grants"][0]["table"] = json!("notes");
    let (status, detail) = put("/api/-/app", Some(&tag), &faulty);
    assert!(status == 400 && detail.contains("there is no table `notes`"), "{status} {detail}");

    // A step that loses values needs a permission; until then nothing changes.
    served.request("POST", "/api/note", &token, &json!({ "text": "kept" }));
    let mut without = app.clone();
    without["tables"]["note"]["fields"].as_object_mut().unwrap().remove("text");
    let (status, detail) = put("/api/-/app", Some(&tag), &without);
    assert!(status == 409 && detail.contains("would be lost"), "{status} {detail}");
    assert_eq!(read(&served, &token).1, tag, "the file has not changed");
    assert_eq!(
        served.request("GET", "/api/note", &token, &Value::Null).1["rows"][0]["done"],
        false
    );
    let (status, detail) = put("/api/-/app?drop=note.text", Some(&tag), &without);
    assert_eq!(status, 200, "{detail}");
    let rows = served.request("GET", "/api/note", &token, &Value::Null).1;
    assert!(rows["rows"][0]["done"] == false && rows["rows"][0].get("text").is_none(), "{rows}");

    // A group that is removed has no rights any more, and the next start has the same tables.
    let (mut app, tag) = read(&served, &token);
    app["groups"]["writers"] = json!({ "grants": [{ "table": "note", "rights": ["read"] }] });
    assert_eq!(put("/api/-/app", Some(&tag), &app).0, 200);
    let names = || served.request("GET", "/api/auth/groups", &token, &Value::Null).1.to_string();
    assert!(names().contains("writers"));
    let (mut app, tag) = read(&served, &token);
    app["groups"].as_object_mut().unwrap().remove("writers");
    assert_eq!(put("/api/-/app", Some(&tag), &app).0, 200);
    assert!(!names().contains("writers"));
    drop(served);
    folder.run(&["schema", "diff"]).with(0);
}

#[test]
fn a_database_in_memory_refuses_the_change() {
    let folder = Folder::new();
    folder.run(&["new", "."]).with(0);
    let served = Served::start(&folder, &["--db", "memory:"]);
    let token = served.log_in();
    let (mut app, tag) = read(&served, &token);
    app["tables"]["note"]["fields"]["due"] = json!({ "kind": "date", "nullable": true });
    let (status, answer, _) = served.tagged("PUT", "/api/-/app", &token, Some(&tag), &app);
    let detail = answer["detail"].as_str().unwrap();
    assert!(status == 501 && detail.contains("serve one in a file"), "{status} {detail}");
    let folder = Folder::new();
    folder.run(&["new", "."]).with(0);
    let served = Served::start(&folder, &["--db", "memory:rows.mdb"]);
    let token = served.log_in();
    let (_, tag) = read(&served, &token);
    served.request("POST", "/api/note", &token, &json!({ "text": "kept" }));
    let (status, answer, _) = served.tagged("PUT", "/api/-/app", &token, Some(&tag), &app);
    assert_eq!(status, 200, "{answer}");
    let rows = served.request("GET", "/api/note", &token, &Value::Null).1;
    assert!(rows["rows"][0]["text"] == "kept" && rows["rows"][0]["due"].is_null(), "{rows}");
}
