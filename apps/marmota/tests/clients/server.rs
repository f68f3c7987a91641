//! The program `marmota` while it serves the tables of `app.toml`.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

pub(crate) struct Server {
    process: Child,
    pub(crate) url: String,
    /// The token with which the first administrator sets a password.
    pub(crate) token: String,
    /// Open, because the program may print more.
    _printed: BufReader<ChildStdout>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// Starts it in a folder with the file `app.toml`.
    pub(crate) fn start(folder: &Path) -> Self {
        let mut program = Command::new(env!("CARGO_BIN_EXE_marmota"));
        program.args(["serve", "--listen", "127.0.0.1:0", "--db", "sqlite:shop.db", "--auth"]);
        program.args(["--changes", "--idempotency", "--files", "files"]).current_dir(folder);
        let mut process = program.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut printed = BufReader::new(process.stdout.take().unwrap());
        let mut url = None;
        let token = loop {
            let mut line = String::new();
            assert!(printed.read_line(&mut line).unwrap() > 0, "the program has ended");
            if let Some((_, rest)) = line.split_once("Serves ") {
                url = rest.split_once("/api").map(|(url, _)| url.to_owned());
            }
            if let Some((_, rest)) = line.split_once("\"token\":\"") {
                break rest.split_once('"').unwrap().0.to_owned();
            }
        };
        Self { process, url: url.unwrap(), token, _printed: printed }
    }

    /// Sets the password of the first administrator, and returns a session token.
    pub(crate) fn sign_in(&self) -> String {
        let send = |path: &str, body: Value| {
            ureq::post(format!("{}/api/auth/{path}", self.url)).send_json(body).unwrap()
        };
        let password = "correct horse battery";
        let token = &self.token;
        send("set-password", json!({ "name": "admin", "token": token, "password": password }));
        let mut session = send("login", json!({ "name": "admin", "password": password }));
        let session: Value = session.body_mut().read_json().unwrap();
        session["token"].as_str().unwrap().to_owned()
    }
}
