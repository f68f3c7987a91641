//! A private server for tests and benchmarks: FerretDB over SQLite, in a temporary folder, on a
//! free port, removed with the process.
//!
//! Its program is built by `cargo xtask packages` from `crates/mongo/ferretdb`. It is searched in
//! `~/.cache/marmota`, or at the path in `MARMOTA_FERRETDB`.

use std::io::{self, BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

/// The path of the program made by `cargo xtask packages`, relative to the user's cache.
const PROGRAM: &str = "marmota/ferretdb-1.24.0-logins";

/// A server. On drop, it stops and deletes its folder.
#[derive(Debug)]
pub struct TemporaryMongo {
    folder: PathBuf,
    process: Mutex<Option<Child>>,
    address: String,
    arguments: Vec<String>,
    databases: AtomicU32,
}

impl TemporaryMongo {
    /// Starts a server.
    ///
    /// # Errors
    /// The error that prevented the start, e.g. if the program is missing.
    pub fn start() -> io::Result<Self> {
        Self::start_with(&[])
    }

    /// Starts a server with options of its program: `-user NAME -password TEXT` to require a login,
    /// `-cert FILE -key FILE` to accept only TLS.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(arguments: &[&str]) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("marmota-mongo-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder)?;
        let mut server = Self {
            folder,
            process: Mutex::default(),
            address: "127.0.0.1:0".to_owned(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            databases: AtomicU32::new(0),
        };
        server.address = server.begin()?;
        Ok(server)
    }

    /// Returns the address where it listens: `127.0.0.1:PORT`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the URL of a new, empty database.
    #[must_use]
    pub fn url(&self) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        format!("mongodb://{}/d{number}", self.address)
    }

    /// Kills the server's process, as a failure would. Its databases remain.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn stop(&self) -> io::Result<()> {
        if let Some(mut process) = self.process.lock().take() {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
    }

    /// Starts it again after [`Self::stop`], on the same address.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn resume(&self) -> io::Result<()> {
        self.begin().map(drop)
    }

    /// Starts the process and returns its address when it accepts connections.
    fn begin(&self) -> io::Result<String> {
        let program = program();
        let mut process = Command::new(&program)
            .args(&self.arguments)
            .arg(&self.address)
            .arg(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                let message = format!("{}: {error}; run `cargo xtask packages`", program.display());
                io::Error::new(error.kind(), message)
            })?;
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        *self.process.lock() = Some(process);
        match line.trim() {
            address if address.contains(':') => Ok(address.to_owned()),
            _ => Err(io::Error::other(format!("{} did not start", program.display()))),
        }
    }
}

fn program() -> PathBuf {
    if let Some(program) = std::env::var_os("MARMOTA_FERRETDB") {
        return program.into();
    }
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from).join(PROGRAM)
}

impl Drop for TemporaryMongo {
    fn drop(&mut self) {
        let _ = self.stop();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
