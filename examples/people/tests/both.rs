//! The server and the client as processes.
#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn client(words: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_people_client")).args(words).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

#[test]
fn rows_of_many_clients_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_people_server"));
    program.args(["127.0.0.1:0", "sqlite:people.db"]).current_dir(folder.path());
    let mut server = Server(program.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.split_whitespace().last().unwrap();
    let (done, said) = client(&[url, "4", "5", "203"]);
    assert!(done && said.contains("203 rows, 0 lost; 20 concurrent clients"), "{said}");
    let (done, said) = client(&[url, "1", "1", "2"]);
    assert!(done && said.contains("2 rows, 0 lost; 1 concurrent clients"), "{said}");
    drop(server);
    let (done, said) = client(&[url, "1", "1", "1"]);
    assert!(!done && said.contains("Refused"), "{said}");
}
