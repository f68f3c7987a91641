//! `serve` with users, and its output for operators.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::program::Folder;

/// The program while it serves; killed on drop.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) said: BufReader<ChildStdout>,
    pub(crate) url: String,
    _folder: Folder,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serving {
    pub(crate) fn start(words: &[&str]) -> Self {
        Self::at("127.0.0.1:0", words)
    }

    fn at(address: &str, words: &[&str]) -> Self {
        let folder = Folder::new();
        let program = folder.program(&Self::words(address, words));
        Self::of(folder, program)
    }

    /// Starts it with this token for operators.
    fn with(words: &[&str], token: &str) -> Self {
        let folder = Folder::new();
        let mut program = folder.program(&Self::words("127.0.0.1:0", words));
        program.env("MARMOTA_DIAGNOSTICS_TOKEN", token);
        Self::of(folder, program)
    }

    fn words<'w>(address: &'w str, words: &[&'w str]) -> Vec<&'w str> {
        let all = ["serve", "--listen", address, "--db", "sqlite:people.db"];
        [&all, words].concat()
    }

    fn of(folder: Folder, mut program: Command) -> Self {
        let mut child = program.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let line = line_with(&mut said, "http://");
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
        let url = url.to_owned();
        Self { child, said, url, _folder: folder }
    }

    /// Sends SIGINT.
    #[cfg(feature = "otel")]
    pub(crate) fn interrupt(&self) {
        let process = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &process]).status().unwrap().success());
    }

    #[cfg(unix)]
    pub(crate) fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &process]).status().unwrap().success());
    }

    /// Returns the status and the body of a response.
    pub(crate) fn ask(&self, request: &str, token: &str, body: Option<&Value>) -> (u16, String) {
        let (method, path) = request.split_once(' ').unwrap();
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let mut asked = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("Content-Type", "application/json");
        if !token.is_empty() {
            asked = asked.header("Authorization", format!("Bearer {token}"));
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut answer = agent.run(asked.body(body).unwrap()).unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    }

    fn json(&self, request: &str, token: &str, body: Option<&Value>) -> Value {
        let (status, text) = self.ask(request, token, body);
        assert!((200..300).contains(&status), "{request}: {status} {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn token_of(&self, name: &str, once: &str) -> String {
        let password = format!("the horse of {name}");
        let redeem = json!({ "name": name, "token": once, "password": password });
        self.json("POST /api/auth/set-password", "", Some(&redeem));
        assert_eq!(
            self.ask("POST /api/auth/set-password", "", Some(&redeem)).0,
            401,
            "it was used"
        );
        let login = json!({ "name": name, "password": password });
        let login = self.json("POST /api/auth/login", "", Some(&login));
        login["token"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn line_with(said: &mut impl BufRead, part: &str) -> String {
    loop {
        let mut line = String::new();
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended without {part}");
        if line.contains(part) {
            return line;
        }
    }
}

/// Returns the setup token that it prints.
fn setup_token(serving: &mut Serving) -> String {
    let line = line_with(&mut serving.said, "\"token\":\"mt_");
    line.split("\"token\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

#[test]
fn users_must_authenticate_and_have_rights() {
    let mut serving = Serving::start(&["--auth", "--diagnostics"]);
    let once = setup_token(&mut serving);
    assert_eq!(serving.ask("GET /api/person", "", None).0, 401);
    let wrong = json!({ "name": "admin", "token": "mt_none", "password": "correct horse" });
    assert_eq!(serving.ask("POST /api/auth/set-password", "", Some(&wrong)).0, 401);
    let admin = serving.token_of("admin", &once);
    let wrong = json!({ "name": "admin", "password": "wrong horse" });
    assert_eq!(serving.ask("POST /api/auth/login", "", Some(&wrong)).0, 401);

    // A group that may read people born later.
    let rule = "year_of_birth > 1900";
    let grants = json!({ "grants": [{ "table": "person", "rights": ["read"], "rule": rule }] });
    serving.json("PUT /api/auth/groups/readers", &admin, Some(&grants));
    let new = json!({ "name": "ann", "groups": ["readers"] });
    let new = serving.json("POST /api/auth/users", &admin, Some(&new));
    let ann = serving.token_of("ann", new["token"].as_str().unwrap());
    let names = |token: &str| {
        let list = serving.json("GET /api/person?order=id", token, None);
        let rows = list["rows"].as_array().unwrap_or_else(|| panic!("{list}"));
        rows.iter().map(|row| row["last_name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&admin).len(), 6);
    assert_eq!(names(&ann), ["Wu", "Bell Burnell"]);
    let emmy = json!({ "first_name": "Emmy", "last_name": "Noether", "year_of_birth": 1882 });
    assert_eq!(serving.ask("POST /api/person", &ann, Some(&emmy)).0, 403);
    assert_eq!(serving.ask("GET /api/person/1", &ann, None).0, 404, "as if it did not exist");
    assert_eq!(serving.ask("GET /api/discovery", &ann, None).0, 403);
    assert_eq!(serving.ask("POST /api/person", &admin, Some(&emmy)).0, 201);

    // Diagnostics are for administrators.
    for path in ["/api/-/statistics", "/metrics", "/api/-/levels"] {
        let request = format!("GET {path}");
        for (token, status) in [("", 401), (&*ann, 403), (&*admin, 200)] {
            assert_eq!(serving.ask(&request, token, None).0, status, "{path}");
        }
    }
    assert_eq!(serving.ask("GET /healthz", "", None).0, 200);
    assert_eq!(serving.ask("POST /api/auth/logout", &ann, None).0, 204);
    assert_eq!(serving.ask("GET /api/person", &ann, None).0, 401);
}

/// Returns the token of operators that it prints.
fn state_token(serving: &mut Serving) -> String {
    let line = line_with(&mut serving.said, "Authorization: Bearer ");
    line.split("Bearer ").nth(1).unwrap().trim_end_matches(['\'', '\n']).to_owned()
}

#[test]
fn without_users_the_token_grants_diagnostics_and_log_levels() {
    let mut serving = Serving::start(&["--diagnostics", "--slow-query-ms", "0", "--log", "error"]);
    let token = state_token(&mut serving);
    serving.json("GET /api/person?filter=last_name~'cur'", "", None);
    let all = serving.json("GET /api/-/statistics", &token, None);
    let verbs = all["verbs"].as_array().unwrap();
    let lists = verbs.iter().find(|one| one["table"] == "person" && one["verb"] == "list").unwrap();
    assert_eq!((&lists["count"], &lists["rows"]), (&json!(1), &json!(2)), "{all}");
    let slow = all["slow"].as_array().unwrap();
    assert!(
        slow.iter().any(|one| one["what"] == "list of person by last_name, at most 101"),
        "{all}"
    );
    let (_, numbers) = serving.ask("GET /metrics", &token, None);
    assert!(numbers.contains("marmota_store_rows_total{table=\"person\",verb=\"list\"} 2\n"));
    let filter = json!({ "filter": "info,marmota=debug" });
    assert_eq!(serving.json("PUT /api/-/levels", &token, Some(&filter)), filter);
    assert_eq!(serving.json("GET /api/-/levels", &token, None), filter);
    let wrong = json!({ "filter": "loudly,,=" });
    assert_eq!(serving.ask("PUT /api/-/levels", &token, Some(&wrong)).0, 400);
    assert_eq!(serving.json("GET /api/-/levels", &token, None), filter);
    // Requests from this machine are not trusted without a token, even without a proxy's header.
    for request in
        ["GET /api/-/statistics", "GET /metrics", "GET /api/-/levels", "PUT /api/-/levels"]
    {
        let (status, text) = serving.ask(request, "", Some(&json!({ "filter": "trace" })));
        assert_eq!(status, 401, "{request}");
        for way in ["MARMOTA_DIAGNOSTICS_TOKEN", "--diagnostics-local", "--auth"] {
            assert!(text.contains(way), "{text}");
        }
    }
    assert_eq!(serving.json("GET /api/-/levels", &token, None), filter);
    assert_eq!(serving.ask("GET /healthz", "", None).0, 200);
    // A program without the option does not serve diagnostics.
    let plain = Serving::start(&[]);
    assert_eq!(plain.ask("GET /api/-/statistics", "", None).0, 404);
    assert_eq!(plain.ask("GET /metrics", "", None).0, 404);
}

#[test]
fn local_requests_read_diagnostics_if_allowed_and_not_proxied() {
    let serving = Serving::with(&["--diagnostics", "--diagnostics-local"], "a-token-of-operators");
    let ask = |request: &str, headers: &[(&str, &str)]| {
        let (method, path) = request.split_once(' ').unwrap();
        let mut asked = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", serving.url))
            .header("Content-Type", "application/json");
        for (name, value) in headers {
            asked = asked.header(*name, *value);
        }
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let body = asked.body(r#"{"filter":"off"}"#).unwrap();
        agent.run(body).unwrap().status().as_u16()
    };
    let token = ("Authorization", "Bearer a-token-of-operators");
    for (headers, reads, changes) in [
        (&[][..], 200, 401),
        (&[("Host", "LOCALHOST:8080")], 200, 401),
        (&[("Host", "[::1]")], 200, 401),
        // Through a proxy, or from a page of another origin.
        (&[("X-Forwarded-For", "192.0.2.7")], 401, 401),
        (&[("X-Forwarded-For", "127.0.0.1")], 401, 401),
        (&[("Forwarded", "for=127.0.0.1")], 401, 401),
        (&[("X-Real-IP", "127.0.0.1")], 401, 401),
        (&[("Via", "1.1 a")], 401, 401),
        (&[("Host", "example.com")], 421, 421),
        (&[("Host", "127.0.0.1.example.com:80")], 421, 421),
        (&[token], 200, 200),
        (&[token, ("X-Forwarded-For", "192.0.2.7")], 200, 200),
    ] {
        assert_eq!(ask("GET /api/-/statistics", headers), reads, "{headers:?}");
        assert_eq!(ask("GET /metrics", headers), reads, "{headers:?}");
        assert_eq!(ask("PUT /api/-/levels", headers), changes, "{headers:?}");
    }
    let trusted = ["--diagnostics", "--diagnostics-local", "--trusted-proxies", "127.0.0.1"];
    let behind = Serving::with(&trusted, "a-token-of-operators");
    assert_eq!(behind.ask("GET /metrics", "", None).0, 401, "it is the proxy's request");
    assert_eq!(behind.ask("GET /metrics", "a-token-of-operators", None).0, 200);
}

#[test]
fn a_weak_token_is_refused() {
    for token in ["", "short", "with a blank in the middle", "0123456789abcde"] {
        let folder = Folder::new();
        let words = ["serve", "--listen", "127.0.0.1:0", "--db", "memory:", "--diagnostics"];
        let mut program = folder.program(&words);
        let ended = program.env("MARMOTA_DIAGNOSTICS_TOKEN", token).output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(!ended.status.success(), "{token}");
        assert!(said.contains("MARMOTA_DIAGNOSTICS_TOKEN") && said.contains("openssl"), "{said}");
        assert!(token.is_empty() || !said.contains(token), "it may be part of a valid one: {said}");
    }
}

#[test]
fn processes_share_a_port_if_all_have_the_option() {
    let first = Serving::start(&["--reuse-port"]);
    let address = first.url.strip_prefix("http://").unwrap();
    let second = Serving::at(address, &["--reuse-port"]);
    assert_eq!(first.url, second.url);
    // Each process has its own database here; one of them gets an additional row.
    let emmy = json!({ "first_name": "Emmy", "last_name": "Noether", "year_of_birth": 1882 });
    first.json("POST /api/person", "", Some(&emmy));
    let rows = || first.json("GET /api/person", "", None)["rows"].as_array().unwrap().len();
    let seen: std::collections::BTreeSet<usize> = (0..200).map(|_| rows()).collect();
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [6, 7]);
    let said = Folder::new().run(&["serve", "--listen", address, "--db", "memory:"]).with(1);
    assert!(said.contains("choose another address"), "{said}");
    let words = ["serve", "--reuse-port", "--listen", "unix:socket", "--db", "memory:"];
    let said = Folder::new().run(&words).with(1);
    assert!(said.contains("only TCP ports can be shared"), "{said}");
}

#[test]
fn a_public_address_needs_users_or_an_option() {
    for address in ["0.0.0.0:0", "[::]:0"] {
        let words = ["serve", "--listen", "127.0.0.1:0", "--listen", address, "--db", "memory:"];
        let said = Folder::new().run(&words).with(1);
        for way in ["--auth", "--open", "127.0.0.1", address.split(']').next().unwrap()] {
            assert!(said.contains(way), "{said}");
        }
    }
    for (way, status) in [("--open", 200), ("--auth", 401)] {
        let serving = Serving::at("0.0.0.0:0", &[way]);
        assert_eq!(serving.ask("GET /api", "", None).0, status, "{way}");
    }
}

#[test]
fn names_and_origins_are_allowed_by_the_command_line() {
    let foreign = |serving: &Serving, host: &str, origin: &str| {
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let request = agent.delete(format!("{}/api/person/999", serving.url));
        let request = request.header("Host", host).header("Origin", origin);
        request.call().unwrap().status().as_u16()
    };
    let plain = Serving::start(&[]);
    assert_eq!(foreign(&plain, "localhost", "https://app.test"), 403);
    assert_eq!(foreign(&plain, "app.test", "http://app.test"), 421);
    let words = ["--allow-origin", "https://app.test", "--allow-host", "app.test"];
    let allowing = Serving::start(&words);
    assert_eq!(foreign(&allowing, "localhost", "https://app.test"), 404);
    assert_eq!(foreign(&allowing, "app.test", "http://app.test"), 404);
    assert_eq!(foreign(&allowing, "localhost", "https://evil.test"), 403);
}

#[test]
fn no_threads_are_refused() {
    let words = ["serve", "--listen", "127.0.0.1:0", "--db", "memory:", "--threads", "0"];
    let said = Folder::new().run(&words).with(2);
    assert!(said.contains("at least 1") && said.contains("--threads"), "{said}");
}

#[test]
fn sessions_have_settings() {
    let mut serving = Serving::start(&["--auth", "--one-session", "--login-attempts-max", "2"]);
    let once = setup_token(&mut serving);
    let first = serving.token_of("admin", &once);
    assert_eq!(serving.ask("GET /api/person", &first, None).0, 200);
    let login = json!({ "name": "admin", "password": "the horse of admin" });
    let second = serving.json("POST /api/auth/login", "", Some(&login));
    let second = second["token"].as_str().unwrap();
    assert_eq!(serving.ask("GET /api/person", second, None).0, 200);
    assert_eq!(serving.ask("GET /api/person", &first, None).0, 401, "one session");
    let wrong = json!({ "name": "admin", "password": "wrong horse" });
    let login = || serving.ask("POST /api/auth/login", "", Some(&wrong)).0;
    let statuses = [login(), login(), login()];
    assert_eq!([statuses[0], statuses[2]], [401, 429], "of 10 attempts by default");
}
