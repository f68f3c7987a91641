//! The servers: how each is started, how rows are written, and how a subscriber begins.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::http::roster::workspace;
use crate::http::usage::ProcessUsage;

const START_TIME_MAX: Duration = Duration::from_secs(20);
const EMAIL: &str = "bench@example.org";
const PASSWORD: &str = "correct horse battery";

/// A server program.
pub(super) enum Target {
    Marmota(PathBuf),
    PocketBase(PathBuf),
}

/// A running server, killed when dropped.
pub(super) struct Running {
    process: Child,
    pub(super) port: u16,
    is_marmota: bool,
    _folder: tempfile::TempDir,
}

/// Builds the `marmota` program.
pub(super) fn build() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["build", "--release", "--package", "marmota-cli"];
    let built = Command::new(cargo).args(arguments).current_dir(workspace()).status()?;
    ensure!(built.success(), "marmota cannot be built");
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(workspace().join(target).join("release/marmota"))
}

impl Target {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Marmota(_) => "marmota",
            Self::PocketBase(_) => "pocketbase",
        }
    }

    /// Starts the server on a new database.
    pub(super) fn start(&self) -> Result<Running> {
        let (Self::Marmota(program) | Self::PocketBase(program)) = self;
        let program = &std::path::absolute(program)?;
        ensure!(program.is_file(), "{} is not a program", program.display());
        let folder = tempfile::tempdir()?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let address = format!("127.0.0.1:{port}");
        let log = File::create(folder.path().join("server.log"))?;
        let mut program = match self {
            Self::Marmota(_) => {
                let mut program = Command::new(program);
                program.args([
                    "serve",
                    "--db",
                    "sqlite:bench.db",
                    "--changes",
                    "--listen",
                    &address,
                ]);
                program
            }
            Self::PocketBase(_) => {
                make_administrator(program, folder.path())?;
                let mut program = Command::new(program);
                program.args(["serve", "--http", &address, "--dir", "data"]);
                program
            }
        };
        let program = program.current_dir(folder.path()).stdin(Stdio::null());
        let process = program.stdout(log.try_clone()?).stderr(log).spawn()?;
        let is_marmota = matches!(self, Self::Marmota(_));
        let running = Running { process, port, is_marmota, _folder: folder };
        running.wait_until_it_listens()?;
        if !is_marmota {
            running.make_collection()?;
        }
        Ok(running)
    }
}

fn make_administrator(program: &Path, folder: &Path) -> Result<()> {
    let mut make = Command::new(program);
    make.args(["superuser", "create", EMAIL, PASSWORD, "--dir", "data"]);
    let made = make.current_dir(folder).stdout(Stdio::null()).status()?;
    ensure!(made.success(), "PocketBase has not made its administrator");
    Ok(())
}

impl Running {
    pub(super) fn usage(&self) -> Result<ProcessUsage> {
        ProcessUsage::of(self.process.id())
    }

    pub(super) fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(START_TIME_MAX))?;
        Ok(stream)
    }

    fn wait_until_it_listens(&self) -> Result<()> {
        let begun = Instant::now();
        while self.connect().is_err() {
            ensure!(begun.elapsed() < START_TIME_MAX, "the server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Returns the text before the number of a write in an event.
    pub(super) const fn marker(&self) -> &'static [u8] {
        if self.is_marmota { b"\"year_of_death\":" } else { b"\"number\":" }
    }

    /// Returns the request that writes a row of a topic with a number.
    pub(super) fn write(&self, topic: &str, number: u64) -> Vec<u8> {
        match self.is_marmota {
            true => request(
                "POST",
                "/api/person",
                "",
                &json!({
                    "first_name": "A", "last_name": topic, "year_of_birth": 1900, "year_of_death": number,
                }),
            ),
            false => request(
                "POST",
                "/api/collections/note/records",
                "",
                &json!({
                    "topic": topic, "number": number,
                }),
            ),
        }
    }

    /// Begins the events of a topic on a connection, which has received the first ones.
    pub(super) fn subscribe(&self, stream: &mut TcpStream, topic: &str) -> Result<()> {
        if self.is_marmota {
            let path =
                format!("/api/person?last_name={topic}&order=-id&limit=20&fields=year_of_death");
            write!(
                stream,
                "GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
            )?;
            read_until(stream, "\"next\":")?;
            return Ok(());
        }
        write!(stream, "GET /api/realtime HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let hello = read_until(stream, "\"}")?;
        let (_, data) = hello.rsplit_once("data:").context("PocketBase has sent no client id")?;
        let end = data.find('}').context("PocketBase has sent no client id")?;
        let hello: Value = serde_json::from_str(&data[..=end])?;
        let filter = format!("%7B%22query%22%3A%7B%22filter%22%3A%22topic%3D'{topic}'%22%7D%7D");
        let body = json!({
            "clientId": hello["clientId"], "subscriptions": [format!("note/*?options={filter}")],
        });
        self.call("POST", "/api/realtime", "", &body).map(drop)
    }

    /// Makes a collection that everyone may read and write.
    fn make_collection(&self) -> Result<()> {
        let login = json!({ "identity": EMAIL, "password": PASSWORD });
        let path = "/api/collections/_superusers/auth-with-password";
        let answer = self.call("POST", path, "", &login)?;
        let token = answer["token"].as_str().context("PocketBase has sent no token")?.to_owned();
        let collection = json!({
            "name": "note", "type": "base",
            "listRule": "", "viewRule": "", "createRule": "",
            "fields": [
                { "name": "topic", "type": "text" },
                { "name": "number", "type": "number" },
            ],
            "indexes": ["CREATE INDEX note_topic ON note (topic)"],
        });
        let header = format!("Authorization: {token}\r\n");
        self.call("POST", "/api/collections", &header, &collection).map(drop)
    }

    /// Sends a request on a new connection, and returns the JSON of the answer.
    fn call(&self, method: &str, path: &str, header: &str, body: &Value) -> Result<Value> {
        let mut stream = self.connect()?;
        let header = format!("{header}Connection: close\r\n");
        stream.write_all(&request(method, path, &header, body))?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let Some((head, body)) = answer.split_once("\r\n\r\n") else { bail!("no answer") };
        ensure!(head.starts_with("HTTP/1.1 2"), "{method} {path}: {answer}");
        Ok(serde_json::from_str(body).unwrap_or_default())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn request(method: &str, path: &str, header: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{header}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Reads until a text has arrived.
fn read_until(stream: &mut TcpStream, end: &str) -> Result<String> {
    let mut read = Vec::new();
    let mut bytes = [0; 4096];
    loop {
        let count = stream.read(&mut bytes)?;
        ensure!(count > 0, "the connection was closed: {}", String::from_utf8_lossy(&read));
        read.extend_from_slice(&bytes[..count]);
        let text = String::from_utf8_lossy(&read);
        let is_head = text.contains("\r\n");
        ensure!(!is_head || text.starts_with("HTTP/1.1 2"), "refused: {text}");
        if text.contains(end) {
            return Ok(text.into_owned());
        }
    }
}
