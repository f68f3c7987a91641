//! The program as a process, and a client for it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use marmota_mariadb::TemporaryMariadb;
use marmota_postgres::TemporaryPostgres;
use serde_json::Value as Json;

/// The program on its own port and database file.
pub(crate) struct Program {
    pub(crate) child: Child,
    address: SocketAddr,
    /// Its database.
    pub(crate) url: String,
    _folder: Option<tempfile::TempDir>,
}

impl Program {
    /// Starts it on a new SQLite file.
    pub(crate) fn on_sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("techempower.db");
        Self::start(format!("sqlite:{}?durability=relaxed", file.display()), Some(folder))
    }

    /// Starts it on a new SQLite file, with the Mustache template.
    pub(crate) fn with_mustache() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("techempower.db").display());
        Self::start_with(&["--mustache"], url, Some(folder))
    }

    /// Starts it on a database of a PostgreSQL server.
    pub(crate) fn on_postgres(server: &TemporaryPostgres) -> Self {
        Self::start(server.make_database().unwrap(), None)
    }

    /// Starts it on a database of a MariaDB server.
    pub(crate) fn on_mariadb(server: &TemporaryMariadb) -> Self {
        Self::start(server.make_database().unwrap(), None)
    }

    pub(crate) fn start(url: String, folder: Option<tempfile::TempDir>) -> Self {
        Self::start_with(&[], url, folder)
    }

    fn start_with(options: &[&str], url: String, folder: Option<tempfile::TempDir>) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_techempower"))
            .args(["--address", "127.0.0.1", "--port", "0", "--db", &url])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines
            .map(Result::unwrap)
            .find_map(|line| line.split_once(" at http://")?.1.parse().ok())
            .expect("it prints its address");
        Self { child, address, url, _folder: folder }
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection(BufReader::new(TcpStream::connect(self.address).unwrap()))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.connect().get(path)
    }

    pub(crate) fn json(&self, path: &str) -> Json {
        let answer = self.get(path);
        assert_eq!(answer.header("content-type"), "application/json", "{path}");
        serde_json::from_slice(&answer.body).unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection with keep-alive.
pub(crate) struct Connection(BufReader<TcpStream>);

pub(crate) struct Answer {
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Connection {
    pub(crate) fn send(&mut self, path: &str) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.send(path);
        self.receive(path)
    }

    pub(crate) fn receive(&mut self, path: &str) -> Answer {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "{path}: closed");
            if line == "\r\n" {
                break;
            }
            lines.push(line.trim_end().to_owned());
        }
        assert_eq!(lines[0], "HTTP/1.1 200 OK", "{path}");
        let headers = lines[1..].iter().map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        });
        let mut answer = Answer { headers: headers.collect(), body: Vec::new() };
        answer.body = vec![0; answer.header("content-length").parse().unwrap()];
        self.0.read_exact(&mut answer.body).unwrap();
        answer
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut found = self.headers.iter().filter(|(header, _)| header == name);
        let value = &found.next().unwrap_or_else(|| panic!("no header {name}")).1;
        assert!(found.next().is_none(), "two headers {name}");
        value
    }

    pub(crate) fn check_headers(&self) {
        assert!(!self.header("server").is_empty());
        assert_eq!(self.header("date").len(), "Sun, 06 Nov 1994 08:49:37 GMT".len());
    }
}
