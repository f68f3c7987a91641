//! A process that writes and tells what was acknowledged, until it is killed. Shared with the tests
//! of the SQLite engine.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

pub(crate) fn lines(from: impl Read) -> impl Iterator<Item = String> {
    BufReader::new(from).lines().map_while(Result::ok)
}

/// Has a process of this program run a test, which writes to what `MARMOTA_WRITE` names and tells
/// each row by a line `row …`; kills it after some time, and gives what it told.
pub(crate) fn written_until_killed(
    test: &str,
    path: &Path,
    round: u64,
    environment: &[(&str, &str)],
) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", test, "--nocapture"])
        .env("MARMOTA_WRITE", path)
        .env("MARMOTA_ROUND", round.to_string())
        .envs(environment.iter().copied())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let (first, begun) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let told = lines(output).filter_map(|line| line.strip_prefix("row ").map(str::to_owned));
        let tell = told.inspect(|_| first.send(()).unwrap_or_default());
        tell.collect::<Vec<_>>()
    });
    begun.recv_timeout(Duration::from_secs(60)).unwrap();
    std::thread::sleep(Duration::from_millis(round * 17 % 100));
    // SIGKILL on Unix.
    child.kill().unwrap();
    child.wait().unwrap();
    // A line cut short by the kill ends in no full stop.
    let told = reader.join().unwrap();
    told.iter().filter_map(|row| row.strip_suffix('.').map(str::to_owned)).collect()
}
