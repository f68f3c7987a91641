//! Applications without Rust code: `new`, `app.toml`, `marmota.toml`, `schema` and `config`.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::program::Folder;

/// A program that serves an application; killed on drop.
pub(crate) struct Served {
    child: Child,
    pub(crate) url: String,
    /// What it prints after its address.
    lines: Mutex<Lines<BufReader<ChildStdout>>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    /// Starts `serve` in a folder, and waits for its address.
    pub(crate) fn start(folder: &Folder, words: &[&str]) -> Self {
        Self::start_with(folder, words, &[])
    }

    /// Starts it with additional environment variables.
    pub(crate) fn start_with(folder: &Folder, words: &[&str], env: &[(&str, &str)]) -> Self {
        let words = [&["serve", "--listen", "127.0.0.1:0"], words].concat();
        let mut program = folder.program(&words);
        program.envs(env.iter().copied());
        let mut child = program.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url_in = |line: &String| {
            line.split_whitespace().find(|word| word.starts_with("http://")).map(str::to_owned)
        };
        let url = lines.by_ref().find_map(|line| url_in(&line.unwrap())).unwrap();
        let origin = url.find("/api").map_or(&*url, |end| &url[..end]);
        Self { child, url: origin.to_owned(), lines: Mutex::new(lines) }
    }

    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        token: &str,
        body: &Value,
    ) -> (u16, Value) {
        let (status, answer, _) = self.tagged(method, path, token, None, body);
        (status, answer)
    }

    /// Sends a request with `If-Match`. Returns the `ETag` of the answer too.
    pub(crate) fn tagged(
        &self,
        method: &str,
        path: &str,
        token: &str,
        tag: Option<&str>,
        body: &Value,
    ) -> (u16, Value, Option<String>) {
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("Content-Type", "application/json");
        if !token.is_empty() {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if let Some(tag) = tag {
            request = request.header("If-Match", tag);
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut response = agent.run(request.body(body).unwrap()).unwrap();
        let tag = response.headers().get("ETag").map(|tag| tag.to_str().unwrap().to_owned());
        let text = response.body_mut().read_to_string().unwrap();
        (response.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::Null), tag)
    }

    /// Returns all rows of a list, which is sent as lines of JSON.
    pub(crate) fn lines(&self, path: &str, token: &str) -> Vec<Value> {
        let request = ureq::get(format!("{}{path}", self.url))
            .header("Authorization", format!("Bearer {token}"))
            .header("Accept", "application/x-ndjson");
        let text = request.call().unwrap().body_mut().read_to_string().unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns the resident memory of the process.
    pub(crate) fn memory_bytes(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        let kilobytes: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kilobytes << 10
    }

    /// Sets the password of the administrator by the token at the start, and logs in.
    pub(crate) fn log_in(&self) -> String {
        let token = self.lines.lock().unwrap().by_ref().find_map(|line| {
            let line = line.unwrap();
            line.split_once("\"token\":\"")?.1.split('"').next().map(str::to_owned)
        });
        let token = token.expect("a token for the first administrator");
        let password = "correct horse battery";
        let body = json!({ "name": "admin", "token": token, "password": password });
        assert_eq!(self.request("POST", "/api/auth/set-password", "", &body).0, 204);
        let body = json!({ "name": "admin", "password": password });
        let (status, session) = self.request("POST", "/api/auth/login", "", &body);
        assert_eq!(status, 200, "{session}");
        session["token"].as_str().unwrap().to_owned()
    }
}

#[test]
fn a_new_application_is_served_with_users_and_rights() {
    let folder = Folder::new();
    let said = folder.run(&["new", "shop"]).with(0);
    assert!(said.contains("Created shop: app.toml, marmota.toml. Next:\n  cd shop\n"), "{said}");
    let said = folder.run(&["new", "shop"]).with(1);
    assert!(said.contains("the folder shop is not empty; name another one"), "{said}");
    let shop = folder.within("shop");
    let said = shop.run(&["schema", "check"]).with(0);
    assert_eq!(said, "app.toml: 1 table and 1 group, valid\n");
    shop.run(&["schema", "diff"]).with(3);
    {
        let served = Served::start(&shop, &[]);
        let note = json!({ "text": "milk" });
        assert_eq!(served.request("POST", "/api/note", "", &note).0, 401, "no anonymous writes");
        let admin = served.log_in();
        let (status, _) = served.request("POST", "/api/note", &admin, &note);
        assert_eq!(status, 201);
        let user = json!({ "name": "ada" });
        let (status, made) = served.request("POST", "/api/auth/users", &admin, &user);
        assert_eq!(status, 201, "{made}");
        let body =
            json!({ "name": "ada", "token": made["token"], "password": "analytical engine" });
        assert_eq!(served.request("POST", "/api/auth/set-password", "", &body).0, 204);
        let body = json!({ "name": "ada", "password": "analytical engine" });
        let ada = served.request("POST", "/api/auth/login", "", &body).1;
        let ada = ada["token"].as_str().unwrap();
        let rows = served.request("GET", "/api/note", ada, &Value::Null).1;
        assert_eq!(rows["rows"][0]["text"], "milk", "the group `everyone` may read: {rows}");
        let empty = json!({ "text": " " });
        assert_eq!(served.request("POST", "/api/note", ada, &empty).0, 422, "rules of the file");
        // Settings of the file: the change feed, and statistics for administrators.
        assert_eq!(served.request("GET", "/api/-/statistics", ada, &Value::Null).0, 403);
        assert_eq!(served.request("GET", "/api/-/statistics", &admin, &Value::Null).0, 200);
    }
    assert!(shop.0.path().join("data/marmota.db").exists());
    shop.run(&["schema", "diff"]).with(0);
}

#[test]
fn a_changed_file_changes_the_database_and_asks_before_it_loses_values() {
    let folder = Folder::new();
    folder.run(&["new", "."]).with(0);
    folder.run(&["schema", "apply"]).with(0);
    let path = folder.0.path().join("app.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        text.replace("done = ", "due = { kind = \"date\", nullable = true }\ndone = "),
    )
    .unwrap();
    let said = folder.run(&["schema", "diff"]).with(3);
    assert!(said.contains("+ add column note.due"), "{said}");
    folder.run(&["schema", "apply"]).with(0);
    // A column without a field stays until it is dropped by name.
    fs::write(&path, text).unwrap();
    let said = folder.run(&["schema", "diff"]).with(0);
    assert!(said.contains("note.due"), "{said}");
    folder.run(&["schema", "apply", "--drop", "note.due"]).with(0);
    let said = folder.run(&["schema", "diff"]).with(0);
    assert!(!said.contains("note.due"), "{said}");
}

#[test]
fn errors_of_files_have_places() {
    let folder = Folder::new();
    let said = folder.run(&["schema", "check"]).with(1);
    assert!(said.contains("there is no app.toml in this folder"), "{said}");
    folder.run(&["new", "."]).with(0);
    let path = folder.0.path().join("app.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("not_empty", "not_emty")).unwrap();
    for words in [&["schema", "check"][..], &["serve"], &["migrate"]] {
        let said = folder.run(words).with(1);
        assert!(
            said.contains("app.toml:9:37: tables.note.fields.text: unknown field `not_emty`"),
            "{said}"
        );
    }
    fs::write(&path, text.replace("table = \"note\"", "table = \"notes\"")).unwrap();
    let said = folder.run(&["schema", "check"]).with(1);
    let expected = "app.toml:16:1: groups.everyone.grants[0]: there is no table `notes`";
    assert!(said.contains(expected), "{said}");
    fs::remove_file(&path).unwrap();
    let config = folder.0.path().join("marmota.toml");
    let cases = [
        (
            "lisen = \"127.0.0.1:80\"",
            "marmota.toml:1:1: there is no setting `lisen`; did you mean `listen`?",
        ),
        ("auth = \"yes\"", "marmota.toml:1:1: `auth` = yes: must be true or false"),
        ("\nthreads = 0", "marmota.toml:2:1: `threads` = 0: must be at least 1"),
        ("threads = [1, 2]", "marmota.toml:1:1: `threads` = 1,2: must be a single value"),
        ("listen = true", "marmota.toml:1:1: `listen` = true: must not be a boolean"),
        ("[tls]", "marmota.toml:1:2: `tls` has the type table; a setting is a boolean, a number"),
        ("auth = ", "marmota.toml:1:8: "),
    ];
    for (text, expected) in cases {
        fs::write(&config, text).unwrap();
        let said = folder.run(&["config", "check"]).with(1);
        assert!(said.contains(expected), "{text}: {said}");
    }
}

#[test]
fn each_setting_has_a_source() {
    let folder = Folder::new();
    let config = folder.0.path().join("marmota.toml");
    fs::write(
        &config,
        "listen = [\"127.0.0.1:0\", \"unix:web.sock\"]\nchanges = true\nlog = \"info\"\n",
    )
    .unwrap();
    let mut program = folder.program(&["config", "show", "--changed", "--json"]);
    program
        .env("MARMOTA_AUTH", "1")
        .env("MARMOTA_OPEN", "no")
        .env("MARMOTA_LOG", "error")
        .env("MARMOTA_DB", "postgres://ada:secret@localhost/a");
    let output = program.output().unwrap();
    let shown: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let find = |key: &str| shown.iter().find(|one| one["key"] == key).cloned().unwrap_or_default();
    assert_eq!(find("listen")["value"], "127.0.0.1:0,unix:web.sock");
    assert_eq!(find("listen")["source"], "marmota.toml");
    assert_eq!(
        find("changes"),
        json!({ "key": "changes", "value": "true", "source": "marmota.toml" })
    );
    assert_eq!(find("log")["value"], "error", "the environment replaces the file");
    assert_eq!(find("log")["source"], "environment variable MARMOTA_LOG");
    assert_eq!(find("db")["value"], "postgres://ada:***@localhost/a");
    assert_eq!(find("auth")["value"], "1");
    assert_eq!(find("auth")["source"], "environment variable MARMOTA_AUTH");
    assert_eq!(shown.len(), 6, "{shown:?}");
    let said = folder.run(&["config", "show"]).with(0);
    assert!(said.contains("forwarded_header") && said.contains("x-forwarded"), "{said}");
    assert_eq!(folder.run(&["config", "check"]).with(0), "3 settings are valid.\n");
    fs::write(folder.0.path().join("other.toml"), "idempotency = true\n").unwrap();
    let said = folder.run(&["config", "show", "--changed", "--config", "other.toml"]).with(0);
    assert_eq!(said, "idempotency  true  other.toml\n");
    fs::write(&config, "nonsense = 1\n").unwrap();
    assert!(folder.run(&["--help"]).with(0).contains("Usage"), "help needs no valid file");
    assert!(folder.run(&["config", "show"]).with(1).contains("marmota.toml:1:1"));
}

#[test]
fn the_command_line_replaces_the_file_of_settings() {
    let folder = Folder::new();
    fs::write(folder.0.path().join("other.toml"), "db = \"sqlite:nowhere/a.db\"\nchanges = true\n")
        .unwrap();
    let said = folder.run(&["serve", "--config", "other.toml"]).with(1);
    assert!(said.contains("nowhere"), "{said}");
    let served = Served::start(&folder, &["--config", "other.toml", "--db", "sqlite:a.db"]);
    let (status, _) = served.request("GET", "/api/person?limit=1", "", &Value::Null);
    assert_eq!(status, 200, "without app.toml the program serves its demonstration");
}

#[test]
fn a_programs_models_are_exported_as_a_file() {
    let folder = Folder::new();
    let text = folder.run(&["schema", "export"]).with(0);
    assert!(
        text.contains("[tables.person.fields]\nid = { kind = \"integer\", role = \"key\" }"),
        "{text}"
    );
    fs::write(folder.0.path().join("app.toml"), &text).unwrap();
    assert_eq!(
        folder.run(&["schema", "check"]).with(0),
        "app.toml: 2 tables and 0 groups, valid\n"
    );
    assert_eq!(folder.run(&["schema", "export"]).with(0), text);
    let json = folder.run(&["schema", "export", "--format", "json"]).with(0);
    assert!(serde_json::from_str::<Value>(&json).is_ok());
    let schema: Value =
        serde_json::from_str(&folder.run(&["schema", "json-schema"]).with(0)).unwrap();
    assert_eq!(schema["title"], "Marmota application");
}
