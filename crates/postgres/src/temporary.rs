//! A private PostgreSQL server for tests and benchmarks: in a temporary folder, on a free port,
//! removed with the process.
//!
//! It needs PostgreSQL's programs: in the folder in `MARMOTA_POSTGRES_BIN`, in
//! `/usr/lib/postgresql/*/bin`, or in the path. The server does not run as root; started by root,
//! it runs as the user `postgres`, or `nobody`.

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};

use crate::engine::Postgres;

/// The user, with a password over TCP and without one over the socket.
const USER: &str = "marmota";
const PASSWORD: &str = "p:ss w@rd";
const START_TIMEOUT: Duration = Duration::from_secs(60);
const FOLDER_PREFIX: &str = "marmota-postgres-";

/// A server. On drop, it stops and deletes its folder.
///
/// ```
/// use marmota_postgres::{Postgres, TemporaryPostgres};
/// let server = TemporaryPostgres::start(&["fsync=off"])?;
/// let engine = Postgres::from_url(&server.make_database()?)?;
/// # drop(engine);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TemporaryPostgres {
    folder: PathBuf,
    port: u16,
    settings: Vec<String>,
    /// The server's process.
    process: Mutex<Option<(Pid, mpsc::Receiver<()>)>>,
    databases: AtomicU32,
}

impl TemporaryPostgres {
    /// Creates and starts a server with additional settings, such as `fsync=off`.
    ///
    /// # Errors
    /// The error that prevented the start, e.g. if the programs are missing.
    pub fn start(settings: &[&str]) -> io::Result<Self> {
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let server = Self::new(settings)?;
        server.initialise()?;
        server.resume()?;
        Ok(server)
    }

    /// Creates and starts a standby of this server, with the same settings. From then on, a commit
    /// of this server waits until a standby has it on its disk.
    ///
    /// # Errors
    /// The error that prevented the copy or the start.
    pub fn start_standby(&self) -> io::Result<Self> {
        let standby = Self::new(self.settings.clone())?;
        standby.follow(self)?;
        Ok(standby)
    }

    /// Replaces the data of this server, which is stopped, by a copy of the primary's, and starts it
    /// as its standby.
    ///
    /// # Errors
    /// The error that prevented the copy or the start.
    pub fn follow(&self, primary: &Self) -> io::Result<()> {
        if self.data().exists() {
            std::fs::remove_dir_all(self.data())?;
        }
        let mut command = unprivileged(&program("pg_basebackup")?, false);
        command.arg("--host").arg(&primary.folder).args(["--port", &primary.port.to_string()]);
        command.args(["--username", USER, "--write-recovery-conf", "--checkpoint=fast"]);
        command.arg("--no-sync").arg("--pgdata").arg(self.data());
        complete(command)?;
        self.resume()?;
        primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")?;
        primary.execute("SELECT pg_reload_conf()")
    }

    /// Closes all connections of clients.
    ///
    /// # Errors
    /// The error of the server.
    pub fn disconnect_all(&self) -> io::Result<()> {
        self.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
        )
    }

    /// Makes a standby a primary, which accepts writes when this returns.
    ///
    /// # Errors
    /// The error of the server.
    pub fn promote(&self) -> io::Result<()> {
        // The copied setting would let its commits wait for a standby.
        self.stop_waiting_for_standbys()?;
        self.execute("SELECT pg_promote()")
    }

    /// Lets commits of this server wait for no standby.
    ///
    /// # Errors
    /// The error of the server.
    pub fn stop_waiting_for_standbys(&self) -> io::Result<()> {
        self.execute("ALTER SYSTEM RESET synchronous_standby_names")?;
        self.execute("SELECT pg_reload_conf()")
    }

    fn execute(&self, sql: &str) -> io::Result<()> {
        let engine = Postgres::from_url(&self.url("postgres")).map_err(io::Error::other)?;
        engine.execute(sql).map_err(io::Error::other)
    }

    /// Reserves a folder and a port.
    fn new(settings: Vec<String>) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        remove_leavings();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{FOLDER_PREFIX}{}-{number}", std::process::id());
        Ok(Self {
            port: TcpListener::bind("127.0.0.1:0")?.local_addr()?.port(),
            folder: std::env::temp_dir().join(name),
            settings,
            process: Mutex::default(),
            databases: AtomicU32::new(0),
        })
    }

    /// Creates a database. Returns its URL.
    ///
    /// # Errors
    /// The error of the server.
    pub fn make_database(&self) -> io::Result<String> {
        let name = format!("d{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.execute(&format!("CREATE DATABASE {name}"))?;
        Ok(self.url(&name))
    }

    /// Returns the URL of a database, over TCP.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let password = PASSWORD.replace(':', "%3A").replace(' ', "%20").replace('@', "%40");
        format!("postgres://{USER}:{password}@127.0.0.1:{}/{database}", self.port)
    }

    /// Returns the URL of a database, over the Unix socket.
    #[must_use]
    pub fn socket_url(&self, database: &str) -> String {
        let folder = self.folder.display();
        format!("postgres://{USER}@/{database}?host={folder}&port={}", self.port)
    }

    /// Returns the URL of a database of a cluster: of this server and of another one.
    #[must_use]
    pub fn url_with(&self, other: &Self, database: &str) -> String {
        let port = format!("127.0.0.1:{}", self.port);
        self.url(database).replace(&port, &format!("{port},127.0.0.1:{}", other.port))
    }

    /// Returns the port that it listens on.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the folder of its data.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Stops the server in its fast mode: open transactions are rolled back, and connections are
    /// closed.
    pub fn pause(&self) {
        self.end(Signal::INT);
    }

    /// Stops the server in its immediate mode, like a crash: the next start recovers from the log.
    pub fn crash(&self) {
        self.end(Signal::QUIT);
    }

    fn end(&self, signal: Signal) {
        if let Some((process, ended)) = self.process.lock().take() {
            let _ = kill_process(process, signal);
            if ended.recv_timeout(START_TIMEOUT).is_err() {
                let _ = kill_process(process, Signal::KILL);
            }
        }
    }

    /// Starts it again with the same data and port.
    ///
    /// # Errors
    /// The error that prevented the start.
    pub fn resume(&self) -> io::Result<()> {
        let mut command = unprivileged(&program("postgres")?, true);
        command.arg("-D").arg(self.data()).arg("-k").arg(&self.folder);
        let port = self.port.to_string();
        command.args(["-p", &port, "-c", "listen_addresses=127.0.0.1"]);
        for setting in [
            "max_connections=400",
            "shared_buffers=64MB",
            "deadlock_timeout=100ms",
            "log_min_messages=fatal",
            "timezone=Asia/Kolkata",
        ] {
            command.args(["-c", setting]);
        }
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let (started, process) = mpsc::channel();
        let (ends, ended) = mpsc::channel();
        // The server stops with the thread that started it.
        std::thread::spawn(move || match command.spawn() {
            Ok(mut child) => {
                let _ = started.send(Ok(pid_of(&child)));
                let _ = child.wait();
                let _ = ends.send(());
            }
            Err(error) => drop(started.send(Err(error))),
        });
        let process = process.recv().map_err(io::Error::other)??;
        *self.process.lock() = process.map(|process| (process, ended));
        self.wait_until_ready()
    }

    fn wait_until_ready(&self) -> io::Result<()> {
        let until = Instant::now() + START_TIMEOUT;
        loop {
            match Postgres::from_url(&self.url("postgres")) {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() >= until => return Err(io::Error::other(error)),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn initialise(&self) -> io::Result<()> {
        let mut command = unprivileged(&program("initdb")?, false);
        // The locale of a language, so that SQL must request sorting by bytes explicitly.
        command.args(["--username", USER, "--no-sync", "--no-instructions", "--encoding=UTF8"]);
        command.args(["--auth-local=trust", "--auth-host=scram-sha-256", "--locale=C.UTF-8"]);
        // Not a secret: it is a constant above.
        let password = self.folder.with_extension("password");
        std::fs::write(&password, PASSWORD)?;
        command.arg("--pwfile").arg(&password).arg("-D").arg(self.data());
        let made = complete(command);
        std::fs::remove_file(&password)?;
        made
    }
}

impl Drop for TemporaryPostgres {
    fn drop(&mut self) {
        self.pause();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Runs a command to its end.
fn complete(mut command: Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}

/// Returns a command that does not run as root; with `ends` it stops with the thread that starts
/// it.
fn unprivileged(program: &Path, ends: bool) -> Command {
    let mut command = Command::new("setpriv");
    if ends {
        command.args(["--pdeathsig", "INT"]);
    }
    if rustix::process::geteuid().is_root() {
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let has_own = users.lines().any(|line| line.starts_with("postgres:"));
        let user = if has_own { "postgres" } else { "nobody" };
        command.args(["--reuid", user, "--clear-groups"]);
    }
    command.arg("--").arg(program).current_dir("/");
    command
}

/// Returns one of PostgreSQL's programs, of the newest version available.
fn program(name: &str) -> io::Result<PathBuf> {
    let mut folders: Vec<PathBuf> =
        std::env::var_os("MARMOTA_POSTGRES_BIN").map(PathBuf::from).into_iter().collect();
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    versions.sort_by(|a, b| b.cmp(a));
    folders.extend(versions.into_iter().map(|(_, folder)| folder));
    let path = std::env::var_os("PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&path));
    folders.into_iter().map(|folder| folder.join(name)).find(|path| path.is_file()).ok_or_else(
        || {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!(
                    "{name} of PostgreSQL was not found: install postgresql, or set \
                         MARMOTA_POSTGRES_BIN to its folder"
                ),
            )
        },
    )
}

/// Removes the folders of processes that did not clean up.
fn remove_leavings() {
    let folders = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for folder in folders {
        let name = folder.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(FOLDER_PREFIX)) else {
            continue;
        };
        let process = rest.split('-').next().unwrap_or_default();
        if process.parse::<u32>().is_ok() && !Path::new("/proc").join(process).exists() {
            let _ = std::fs::remove_dir_all(folder.path());
        }
    }
}
