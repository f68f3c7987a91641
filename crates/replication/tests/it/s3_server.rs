//! A private S3 server for tests. Shared with the tests of files.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The path of the program that `cargo xtask packages` makes, in the user's cache.
const PROGRAM: &str = "marmota/versitygw-1.8.0/versitygw";
const KEY: &str = "marmota-test";
const SECRET: &str = "marmota-test-secret";

/// An S3 server over a temporary folder.
pub(crate) struct Bucket {
    pub(crate) folder: tempfile::TempDir,
    port: u16,
    process: Option<Child>,
}

impl Bucket {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("data/backups")).unwrap();
        let port =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let mut bucket = Self { folder, port, process: None };
        bucket.resume();
        bucket
    }

    pub(crate) fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    pub(crate) fn resume(&mut self) {
        let program = program();
        let process = Command::new(&program)
            .args(["--port", &format!("127.0.0.1:{}", self.port), "--access", KEY])
            .args(["--secret", SECRET, "--region", "us-east-1", "--quiet"])
            .args(["posix", "--sidecar"])
            .arg(self.side())
            .arg(self.folder.path().join("data"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("{}: {error}; run `cargo xtask packages`", program.display())
            });
        self.process = Some(process);
        let start = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            assert!(start.elapsed() < Duration::from_secs(30), "the server does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The folder of attributes, which not every file system has.
    fn side(&self) -> PathBuf {
        let side = self.folder.path().join("side");
        std::fs::create_dir_all(&side).unwrap();
        side
    }

    /// Runs an ignored test of this program, by its path, in a process with the settings of the bucket.
    pub(crate) fn run(&self, test: &str, settings: &[(&str, &str)]) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", test, "--nocapture"])
            .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port))
            .env("AWS_ACCESS_KEY_ID", KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .env("AWS_REGION", "us-east-1")
            .env("MARMOTA_FOLDER", self.folder.path())
            .envs(settings.iter().copied())
            .spawn()
            .unwrap()
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        self.stop();
    }
}

fn program() -> PathBuf {
    if let Some(program) = std::env::var_os("MARMOTA_VERSITYGW") {
        return program.into();
    }
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from).join(PROGRAM)
}

/// The folder that the process of a test shares with it.
pub(crate) fn folder() -> PathBuf {
    std::env::var_os("MARMOTA_FOLDER").expect("started by another test").into()
}
