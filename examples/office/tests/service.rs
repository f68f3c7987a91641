//! The program as it is deployed: behind nginx over a Unix socket, and over TCP; also with a
//! database that stops and restarts under load.
#![allow(clippy::unwrap_used, reason = "tests panic")]

mod gate;

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gate::Gate;
use marmota_mongo::TemporaryMongo;

/// A process that is killed on drop.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Returns the status and the body.
fn get(port: u16, path: &str) -> Option<(u16, String)> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(20)))
        .build()
        .into();
    let answer = agent.get(format!("http://127.0.0.1:{port}{path}")).call().ok()?;
    let status = answer.status().as_u16();
    Some((status, answer.into_body().read_to_string().ok()?))
}

fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{what} takes too long");
        thread::sleep(Duration::from_millis(20));
    }
}

fn office(url: &str, socket: &Path, port: u16) -> Process {
    let mut program = Command::new(env!("CARGO_BIN_EXE_office"));
    program.args(["--db", url, "--listen", &format!("unix:{}", socket.display())]);
    program.args(["--listen", &format!("127.0.0.1:{port}")]);
    let process = Process(program.stdout(Stdio::null()).spawn().unwrap());
    until("the office server", || get(port, "/hello"));
    process
}

/// Starts nginx as a reverse proxy for a Unix socket.
fn nginx(folder: &Path, socket: &Path, port: u16) -> Process {
    let at = folder.display();
    let configuration = format!(
        "daemon off; master_process off; pid {at}/nginx.pid; error_log {at}/error.log;\n\
         events {{ worker_connections 512; }}\n\
         http {{ access_log off; client_body_temp_path {at}/b; proxy_temp_path {at}/p;\n\
         fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
         upstream office {{ server unix:{}; keepalive 16; }}\n\
         server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://office;\n\
         proxy_http_version 1.1; proxy_set_header Connection \"\"; }} }} }}\n",
        socket.display()
    );
    let file = folder.join("nginx.conf");
    std::fs::write(&file, configuration).unwrap();
    let program = if Path::new("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" };
    let mut nginx = Command::new(program);
    nginx.arg("-p").arg(folder).arg("-c").arg(&file).stderr(Stdio::null());
    let process = Process(nginx.spawn().expect("nginx; `cargo xtask test` installs it"));
    until("nginx", || get(port, "/hello").filter(|(status, _)| *status == 200));
    process
}

#[test]
fn answers_are_equal_with_and_without_nginx() {
    let (server, folder) = (TemporaryMongo::start().unwrap(), tempfile::tempdir().unwrap());
    let (socket, port, front) = (folder.path().join("office.sock"), free_port(), free_port());
    let _office = office(&server.url(), &socket, port);
    let _nginx = nginx(folder.path(), &socket, front);
    for path in ["/hello", "/json", "/mongo/1", "/office/1", "/mongo/none", "/nowhere"] {
        assert_eq!(get(front, path), get(port, path), "{path}");
    }
    let (_, json) = get(front, "/json").unwrap();
    assert!(
        json.starts_with(r#"{"_id":"1","tenantId":"marmota","name":"Burrow \"Nord\" "#),
        "{json}"
    );
    assert!(
        json.contains(r#""options":{"availableFromHour":null,"availableUntilHour":18"#),
        "{json}"
    );
    assert_eq!(get(front, "/mongo/1").unwrap(), (200, json));
    assert_eq!(get(front, "/mongo/none").unwrap().0, 404);
    let (_, page) = get(front, "/office/1").unwrap();
    assert!(page.contains("&lt;Süd&gt;"), "{page}");
}

#[test]
fn a_stopped_database_gives_503_until_it_restarts() {
    let (server, folder) = (TemporaryMongo::start().unwrap(), tempfile::tempdir().unwrap());
    let url = format!("{}?serverSelectionTimeoutMS=300", server.url());
    let (socket, port) = (folder.path().join("office.sock"), free_port());
    let _office = office(&url, &socket, port);
    let (_, wanted) = get(port, "/mongo/1").unwrap();
    let (ended, right, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let (status, body) = get(port, "/mongo/1").expect("an answer");
                    match status {
                        200 => {
                            assert_eq!(body, wanted);
                            right.fetch_add(1, Ordering::Relaxed);
                        }
                        _ => {
                            assert_eq!(status, 503, "{body}");
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        let reaches = |count: &AtomicU64| {
            let before = count.load(Ordering::Relaxed);
            until("the next answers", || {
                (count.load(Ordering::Relaxed) >= before + 8).then_some(())
            });
        };
        reaches(&right);
        server.stop().unwrap();
        reaches(&refused);
        assert_eq!(get(port, "/hello").unwrap().0, 200);
        server.resume().unwrap();
        reaches(&right);
        ended.store(true, Ordering::Relaxed);
    });
}

/// A client that requests an office and does not read. With `rude`, it leaves a response unread, so
/// that closing sends a reset.
fn send_request(id: usize, port: u16, rude: bool) -> TcpStream {
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    if rude {
        client.write_all(b"GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        assert_eq!(client.peek(&mut [0]).unwrap(), 1);
    }
    write!(client, "GET /mongo/{id} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    client
}

#[test]
fn disconnected_clients_release_their_pooled_connections() {
    const POOL: usize = 2;
    let (server, folder) = (TemporaryMongo::start().unwrap(), tempfile::tempdir().unwrap());
    let gate = Gate::before(&server.url());
    let url = format!("{}?maxPoolSize={POOL}&maxIdleTimeMS=300", gate.url());
    let (socket, port) = (folder.path().join("office.sock"), free_port());
    let _office = office(&url, &socket, port);
    let (_, wanted) = get(port, "/mongo/1").unwrap();
    // If each client leaked a connection, the second round would find none free.
    for round in 0..3 {
        gate.close(true);
        let leaving: Vec<TcpStream> =
            (0..40).map(|id| send_request(id, port, id % 2 == 0)).collect();
        until("the queries", || (gate.held() == POOL).then_some(()));
        let staying = thread::spawn(move || get(port, "/mongo/1"));
        assert_eq!(get(port, "/hello").unwrap().0, 200, "round {round}");
        drop(leaving);
        assert_eq!(get(port, "/hello").unwrap().0, 200, "round {round}");
        gate.close(false);
        assert_eq!(staying.join().unwrap(), Some((200, wanted.clone())), "round {round}");
        until("the pool", || (gate.connections() <= POOL + 1).then_some(()));
    }
    // The remaining connection monitors the server for the driver.
    until("the end of idle connections", || (gate.connections() <= 1).then_some(()));
    assert_eq!(get(port, "/mongo/1").unwrap(), (200, wanted));
}
