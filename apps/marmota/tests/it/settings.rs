//! Settings of `serve` in a file: what they change, and their reload by SIGHUP.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;

use crate::program::Folder;
use crate::serve::line_with;

/// The program while it serves the settings of a folder; killed on drop.
struct Served {
    child: Child,
    said: BufReader<ChildStdout>,
    address: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    /// Starts it; its log is written to `log.txt`.
    fn start(folder: &Folder) -> Self {
        let log = fs::File::create(folder.0.path().join("log.txt")).unwrap();
        let mut program = folder.program(&["serve", "--listen", "127.0.0.1:0", "--db", "memory:"]);
        let mut child = program.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let line = line_with(&mut said, "http://");
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
        let address = url.trim_start_matches("http://").to_owned();
        Self { child, said, address }
    }

    /// Sends SIGHUP.
    fn hang_up(&self) {
        let process = self.child.id().to_string();
        let kill = std::process::Command::new("kill").args(["-HUP", &process]).status();
        assert!(kill.unwrap().success());
    }

    /// Sends SIGHUP, and returns the line with its result.
    fn reload(&mut self) -> String {
        self.hang_up();
        line_with(&mut self.said, "Reloaded")
    }
}

/// A connection that stays open.
struct Connection(BufReader<TcpStream>);

impl Connection {
    fn open(served: &Served) -> Self {
        Self(BufReader::new(TcpStream::connect(&served.address).unwrap()))
    }

    /// Sends a request with these headers; returns the head of the answer.
    fn request(&mut self, line: &str, headers: &str) -> String {
        let request = format!("{line} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let mut head = String::new();
        loop {
            let before = head.len();
            assert!(self.0.read_line(&mut head).unwrap() > 0, "the connection was closed: {head}");
            if head[before..].trim().is_empty() {
                break;
            }
        }
        let length = head.to_lowercase();
        let length = length.split("content-length: ").nth(1);
        let length = length.and_then(|rest| rest.lines().next()).unwrap_or("0");
        let mut body = vec![0; length.trim().parse().unwrap()];
        self.0.read_exact(&mut body).unwrap();
        head
    }
}

/// Waits until a file has a text.
fn wait_for_text(path: &std::path::Path, text: &str) -> String {
    for _ in 0..1_000 {
        let content = fs::read_to_string(path).unwrap_or_default();
        if content.contains(text) {
            return content;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{} has no {text:?} after 10 s: {:?}", path.display(), fs::read_to_string(path));
}

const GET: &str = "GET /api/person?limit=1";

#[test]
fn a_reload_changes_settings_and_keeps_connections() {
    let folder = Folder::new();
    let config = folder.0.path().join("marmota.toml");
    let (access, moved) =
        (folder.0.path().join("access.log"), folder.0.path().join("access.log.1"));
    let text = "cors_origin = [\"https://a.example.org\"]\nrate_limit = 1000\n\
                cors_exposed = [\"ETag\"]\ncontent_security_policy = \"default-src 'self'\"\n\
                access_log = \"access.log\"\naccess_log_format = \"json\"\nhsts_s = 60\n";
    fs::write(&config, text).unwrap();
    let mut served = Served::start(&folder);
    let mut connection = Connection::open(&served);
    let head = connection.request(GET, "Origin: https://a.example.org\r\n");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains("Access-Control-Allow-Origin: https://a.example.org\r\n"), "{head}");
    assert!(head.contains("Strict-Transport-Security: max-age=60"), "{head}");
    assert!(head.contains("X-Frame-Options: DENY\r\n"), "{head}");
    assert!(head.contains("Content-Security-Policy: default-src 'self'\r\n"), "{head}");
    assert!(head.contains("Access-Control-Expose-Headers: ETag\r\n"), "{head}");
    let head = connection.request(
        "OPTIONS /api/person",
        "Origin: https://a.example.org\r\nAccess-Control-Request-Method: POST\r\n",
    );
    assert!(head.starts_with("HTTP/1.1 204"), "{head}");
    let line = wait_for_text(&access, "\"method\":\"OPTIONS\"");
    assert!(line.contains("\"target\":\"/api/person?limit=1\""), "{line}");
    fs::rename(&access, &moved).unwrap();

    let text = "cors_origin = [\"https://b.example.org\"]\nrate_limit = 0.001\n\
                rate_limit_burst = 2\nlog = \"info\"\nthreads = 1\npage_rows_max = 7\n\
                access_log = \"access.log\"\naccess_log_format = \"json\"\n";
    fs::write(&config, text).unwrap();
    let line = served.reload();
    assert_eq!(
        line,
        "Reloaded marmota.toml: content_security_policy, cors_exposed, cors_origin, hsts_s, log, \
         rate_limit and rate_limit_burst have changed; page_rows_max and threads need a restart.\n"
    );
    let head = connection.request(GET, "Origin: https://b.example.org\r\n");
    assert!(head.contains("Access-Control-Allow-Origin: https://b.example.org\r\n"), "{head}");
    assert!(!head.contains("Strict-Transport-Security"), "{head}");
    let head = connection.request(GET, "Origin: https://a.example.org\r\n");
    assert!(!head.contains("Access-Control-Allow-Origin"), "{head}");
    let head = connection.request(GET, "");
    assert!(head.starts_with("HTTP/1.1 429"), "two at once: {head}");
    wait_for_text(&access, "\"status\":429");

    // An invalid file changes nothing, not even its valid part.
    fs::write(&config, "log = \"warn\"\nrate_limit = -5\n").unwrap();
    served.hang_up();
    let log = wait_for_text(&folder.0.path().join("log.txt"), "stay as they are");
    assert!(log.contains("marmota.toml:2:1: `rate_limit` = -5: must be a number above 0"), "{log}");
    fs::write(&config, text.replace("rate_limit = 0.001", "rate_limit = 0.002")).unwrap();
    let line = served.reload();
    assert_eq!(
        line,
        "Reloaded marmota.toml: rate_limit has changed; page_rows_max and threads need a restart.\n",
        "the setting that needs a restart is still named"
    );
    assert!(connection.request(GET, "").starts_with("HTTP/1.1 200"), "a new limit, a full bucket");
    // Without the file, the defaults apply.
    fs::remove_file(&config).unwrap();
    let line = served.reload();
    assert!(line.contains("cors_origin, log, rate_limit and rate_limit_burst have"), "{line}");
    for _ in 0..3 {
        assert!(connection.request(GET, "").starts_with("HTTP/1.1 200"));
    }
}

#[test]
fn limits_and_the_form_of_the_log_are_settings() {
    let folder = Folder::new();
    let text = "log = \"info\"\nlog_format = \"json\"\nbody_bytes_max = 100\npage_rows_max = 2\n\
                http_backend = \"epoll\"\ncache_bytes_max = 1_000_000\nno_compression = true\n";
    fs::write(folder.0.path().join("marmota.toml"), text).unwrap();
    let served = Served::start(&folder);
    let mut connection = Connection::open(&served);
    let head = connection.request("POST /api/person", "Content-Length: 101\r\n");
    assert!(head.starts_with("HTTP/1.1 413"), "{head}");
    let mut connection = Connection::open(&served);
    let head = connection.request("GET /api/person?limit=3", "");
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    let log = wait_for_text(&folder.0.path().join("log.txt"), "listening on");
    for line in log.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        assert!(event["timestamp"].is_string() && event["message"].is_string(), "{line}");
    }
}

/// Returns the cores of each thread that serves HTTP, as `/proc` writes them.
fn cores_of_threads(process: u32) -> Vec<String> {
    let cores = |task: std::io::Result<fs::DirEntry>| {
        let status = fs::read_to_string(task.ok()?.path().join("status")).ok()?;
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map(|value| value.trim().to_owned())
        };
        value("Name")?.starts_with("marmota-http-").then(|| value("Cpus_allowed_list"))?
    };
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    tasks.filter_map(cores).collect()
}

/// Returns the number of listeners of a port.
fn listeners_of(served: &Served) -> usize {
    const LISTENS: &str = "0A";
    let (_, port) = served.address.rsplit_once(':').unwrap();
    let port = format!(":{:04X}", port.parse::<u16>().unwrap());
    let sockets = fs::read_to_string(format!("/proc/{}/net/tcp", served.child.id())).unwrap();
    let is_listener = |line: &&str| {
        let mut words = line.split_whitespace();
        words.nth(1).is_some_and(|local| local.ends_with(&port)) && words.nth(1) == Some(LISTENS)
    };
    sockets.lines().filter(is_listener).count()
}

#[test]
fn threads_listeners_cores_and_the_name_are_settings() {
    let folder = Folder::new();
    let config = folder.0.path().join("marmota.toml");
    for (text, threads, listeners) in [
        ("threads = 1\npin_threads = true\nserver_name = \"Shop\"\n", 1, 1),
        ("threads = 6\nlisteners = 3\n", 6, 3),
        ("listeners = 1\n", std::thread::available_parallelism().unwrap().get(), 1),
    ] {
        fs::write(&config, text).unwrap();
        let served = Served::start(&folder);
        let head = Connection::open(&served).request(GET, "");
        assert_eq!(head.contains("Server: Shop\r\n"), text.contains("Shop"), "{head}");
        assert_eq!(listeners_of(&served), listeners, "{text}");
        // One thread has answered; the others may still be starting.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        let mut cores = cores_of_threads(served.child.id());
        while cores.len() != threads && std::time::Instant::now() < deadline {
            std::thread::yield_now();
            cores = cores_of_threads(served.child.id());
        }
        assert_eq!(cores.len(), threads, "{text}");
        if text.contains("pin_threads") {
            assert!(cores[0].parse::<usize>().is_ok(), "one core, not {cores:?}");
        }
    }
}

#[test]
fn each_option_of_serve_is_a_setting_with_a_variable() {
    let folder = Folder::new();
    let help = folder.run(&["serve", "--help"]).with(0);
    let shown: Vec<Value> =
        serde_json::from_str(&folder.run(&["config", "show", "--json"]).with(0)).unwrap();
    let mut count = 0;
    for line in help.lines() {
        let Some(word) = line.split_whitespace().find(|word| word.starts_with("--")) else {
            continue;
        };
        if !line.trim_start().starts_with('-') || ["--help", "--app", "--config"].contains(&word) {
            continue;
        }
        count += 1;
        let key = word.trim_start_matches('-').replace('-', "_");
        assert!(shown.iter().any(|one| one["key"] == *key), "no setting {key}");
        let variable = format!("MARMOTA_{}", key.to_uppercase());
        // The value of a variable with a password is not shown.
        let is_named = [format!("[env: {variable}="), format!("[env: {variable}]")];
        assert!(is_named.iter().any(|text| help.contains(text)), "no variable {variable}");
    }
    assert!(count > 60, "{count} options");
    assert_eq!(count, shown.len());
}

#[test]
fn settings_that_exclude_each_other_are_refused() {
    let folder = Folder::new();
    let config = folder.0.path().join("marmota.toml");
    let cases = [
        ("cors_origin = \"*\"\ncors_credentials = true\n", "`cors_credentials` needs a list"),
        ("cors_origin = [\"a.example.org\"]\n", "marmota.toml:1:1: `cors_origin` = a.example.org"),
        ("db = \"sqlite:a.db?durability=full\"\ndurability = \"none\"\n", "leave one out"),
        ("cors_exposed = [\"E Tag\"]\n", "marmota.toml:1:1: `cors_exposed` = E Tag"),
        ("log_format = \"xml\"\n", "marmota.toml:1:1: `log_format` = xml: must be text or json"),
        ("threads = 3\nlisteners = 2\n", "`threads` (3) must be a multiple of `listeners` (2)"),
        ("head_bytes_max = 0\n", "marmota.toml:1:1: `head_bytes_max` = 0: must be at least 1"),
    ];
    for (text, expected) in cases {
        fs::write(&config, text).unwrap();
        for words in [&["config", "check"][..], &["serve", "--listen", "127.0.0.1:0"]] {
            let said = folder.run(words).with(1);
            assert!(said.contains(expected), "{text}: {said}");
        }
    }
}

#[test]
fn a_value_of_the_file_that_equals_the_default_is_shown_as_one_of_the_file() {
    let folder = Folder::new();
    fs::write(folder.0.path().join("marmota.toml"), "log = \"warn\"\nauth = false\n").unwrap();
    let shown = folder.run(&["config", "show"]).with(0);
    let line = |key: &str| {
        let mut lines = shown.lines();
        let line = lines.find(|line| line.split_whitespace().next() == Some(key)).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("log"), "log warn marmota.toml");
    assert_eq!(line("auth"), "auth false marmota.toml");
    assert_eq!(line("threads"), "threads - default");
    assert_eq!(folder.run(&["config", "show", "--changed"]).with(0), "");
}
