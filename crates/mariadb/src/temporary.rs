//! A private MariaDB server for tests and benchmarks: in a temporary folder, on a free port, removed
//! with the process.
//!
//! It needs MariaDB's programs `mariadbd` and `mariadb-install-db` in the path or in `/usr/sbin`.
//! MariaDB refuses to run as root. If root starts it, it runs as the user `mysql`, or `nobody`.

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};

use crate::engine::Mariadb;

/// The user, with a password.
const USER: &str = "marmota";
const PASSWORD: &str = "p:ss w@rd";
const START_TIMEOUT: Duration = Duration::from_secs(120);
const FOLDER_PREFIX: &str = "marmota-mariadb-";
/// Galera's library, where Debian and Ubuntu install it.
const GALERA: &str = "/usr/lib/galera/libgalera_smm.so";
/// How often the system tables are created.
const INSTALLS_MAX: u32 = 3;

/// A server. On drop, it stops and deletes its folder.
///
/// ```no_run
/// use marmota_mariadb::{Mariadb, TemporaryMariadb};
/// let server = TemporaryMariadb::start()?;
/// let engine = Mariadb::from_url(&server.make_database()?)?;
/// # drop(engine);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TemporaryMariadb {
    folder: PathBuf,
    port: u16,
    /// The server's process.
    process: Mutex<Option<(Pid, mpsc::Receiver<()>)>>,
    databases: AtomicU32,
    /// More arguments.
    arguments: Vec<String>,
    /// Further files in its folder.
    files: Vec<(&'static str, String)>,
}

impl TemporaryMariadb {
    /// Creates and starts a server.
    ///
    /// # Errors
    /// The error that prevented the start, e.g. if the programs are missing.
    pub fn start() -> io::Result<Self> {
        remove_leavings();
        let server = Self::new(Vec::new())?;
        server.make_folder()?;
        server.initialise()?;
        server.resume()?;
        Ok(server)
    }

    /// Creates and starts a server that has TLS, with a certificate and its key in PEM.
    ///
    /// # Errors
    /// Those of [`Self::start`].
    pub fn start_with_tls(certificate: &str, key: &str) -> io::Result<Self> {
        remove_leavings();
        let mut server = Self::new(Vec::new())?;
        for (option, name, pem) in
            [("ssl-cert", "server.pem", certificate), ("ssl-key", "key.pem", key)]
        {
            server.arguments.push(format!("--{option}={}", server.folder.join(name).display()));
            server.files.push((name, pem.to_owned()));
        }
        server.make_folder()?;
        server.initialise()?;
        server.resume()?;
        Ok(server)
    }

    /// Creates and starts the nodes of a Galera cluster. It needs Galera's library (`galera-4`) and
    /// `rsync`, which copies the first node to the others.
    ///
    /// # Errors
    /// The error that prevented the start.
    pub fn start_cluster(nodes: usize) -> io::Result<Vec<Self>> {
        remove_leavings();
        let first_port = free_port()?;
        let mut cluster: Vec<Self> = Vec::new();
        for number in 0..nodes {
            let port = if number == 0 { first_port } else { free_port()? };
            let seed = if number == 0 { String::new() } else { format!("127.0.0.1:{first_port}") };
            let arguments = vec![
                "--wsrep-on=ON".to_owned(),
                format!("--wsrep-provider={GALERA}"),
                format!("--wsrep-cluster-address=gcomm://{seed}"),
                format!("--wsrep-node-address=127.0.0.1:{port}"),
                "--wsrep-sst-method=rsync".to_owned(),
                format!("--wsrep-sst-receive-address=127.0.0.1:{}", free_port()?),
                format!(
                    "--wsrep-provider-options=base_host=127.0.0.1;base_port={port};\
                     ist.recv_addr=127.0.0.1:{};gcache.size=16M",
                    free_port()?
                ),
                "--binlog-format=ROW".to_owned(),
                "--innodb-autoinc-lock-mode=2".to_owned(),
            ];
            let node = Self::new(arguments)?;
            node.make_folder()?;
            if number == 0 {
                node.initialise()?;
            }
            node.resume()?;
            cluster.push(node);
        }
        Ok(cluster)
    }

    fn new(arguments: Vec<String>) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{FOLDER_PREFIX}{}-{number}", std::process::id());
        Ok(Self {
            port: free_port()?,
            folder: std::env::temp_dir().join(name),
            process: Mutex::default(),
            databases: AtomicU32::new(0),
            arguments,
            files: Vec::new(),
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

    /// Executes a statement as the administrator of the server.
    ///
    /// # Errors
    /// The error of the server.
    pub fn execute(&self, sql: &str) -> io::Result<()> {
        let engine = Mariadb::from_url(&self.url("mysql")).map_err(io::Error::other)?;
        engine.execute(sql).map_err(io::Error::other)
    }

    /// Returns the URL of a database, over TCP.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let password = PASSWORD.replace(':', "%3A").replace(' ', "%20").replace('@', "%40");
        format!("mariadb://{USER}:{password}@127.0.0.1:{}/{database}", self.port)
    }

    /// Returns the URL of a database of this server and another one.
    #[must_use]
    pub fn url_with(&self, others: &[&Self], database: &str) -> String {
        let own = format!("127.0.0.1:{}", self.port);
        let others = others.iter().map(|other| format!(",127.0.0.1:{}", other.port));
        self.url(database).replacen(&own, &(own.clone() + &others.collect::<String>()), 1)
    }

    /// Returns the URL of a database, over the Unix socket.
    #[must_use]
    pub fn socket_url(&self, database: &str) -> String {
        let socket = self.folder.join("socket");
        format!("{}?socket={}", self.url(database), socket.display())
    }

    /// Returns the port that it listens on.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the number of the server's process, unless it has been stopped.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        let process = self.process.lock();
        process.as_ref().and_then(|(process, _)| u32::try_from(process.as_raw_pid()).ok())
    }

    /// Stops the server: open transactions are rolled back, and connections are closed.
    pub fn pause(&self) {
        self.end(Signal::TERM);
    }

    /// Kills the server, like a crash: the next start recovers from the log.
    pub fn crash(&self) {
        self.end(Signal::KILL);
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
        let mut command = unprivileged(&program("mariadbd")?, true);
        command.args(["--no-defaults", "--skip-name-resolve", "--bind-address=127.0.0.1"]);
        command.arg(format!("--datadir={}", self.folder.join("data").display()));
        // A server deletes the temporary tables of others in the same folder when it starts.
        command.arg(format!("--tmpdir={}", self.folder.join("tmp").display()));
        command.arg(format!("--socket={}", self.folder.join("socket").display()));
        command.arg(format!("--pid-file={}", self.folder.join("pid").display()));
        command.arg(format!("--init-file={}", self.folder.join("init.sql").display()));
        command.arg(format!("--port={}", self.port));
        for setting in [
            "--innodb-buffer-pool-size=64M",
            "--innodb-log-file-size=32M",
            "--innodb-flush-log-at-trx-commit=2",
            "--innodb-flush-method=fsync",
            "--skip-innodb-doublewrite",
            "--max-connections=400",
            // An open table has its triggers in memory.
            "--table-open-cache=400",
            "--performance-schema=OFF",
            "--skip-log-bin",
            "--default-time-zone=+05:30",
        ] {
            command.arg(setting);
        }
        command.args(&self.arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let (started, process) = mpsc::channel();
        let (ends, ended) = mpsc::channel();
        // The server stops with the thread that started it.
        std::thread::spawn(move || match command.spawn() {
            Ok(mut child) => {
                let _ = started.send(Ok(i32::try_from(child.id()).ok().and_then(Pid::from_raw)));
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
            match Mariadb::from_url(&self.url("mysql")) {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() >= until => return Err(io::Error::other(error)),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn make_folder(&self) -> io::Result<()> {
        std::fs::create_dir(&self.folder)?;
        std::fs::create_dir(self.folder.join("data"))?;
        std::fs::create_dir(self.folder.join("tmp"))?;
        let init = format!(
            "CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';\n\
             GRANT ALL PRIVILEGES ON *.* TO '{USER}'@'%' WITH GRANT OPTION;\n"
        );
        std::fs::write(self.folder.join("init.sql"), init)?;
        for (name, text) in &self.files {
            std::fs::write(self.folder.join(name), text)?;
        }
        if rustix::process::geteuid().is_root() {
            let status = Command::new("chown").args(["-R", user()]).arg(&self.folder).status()?;
            if !status.success() {
                return Err(io::Error::other("chown of the folder of MariaDB has failed"));
            }
        }
        Ok(())
    }

    /// Creates the system tables. When many servers start at once, the program may fail: it is run
    /// again.
    fn initialise(&self) -> io::Result<()> {
        let data = self.folder.join("data");
        for attempt in 1.. {
            match self.install() {
                Err(error) if attempt < INSTALLS_MAX => {
                    eprintln!("mariadb-install-db has failed, and is run again: {error}");
                    std::fs::remove_dir_all(&data)?;
                    std::thread::sleep(Duration::from_millis(500) * attempt);
                }
                done => return done,
            }
        }
        Ok(())
    }

    fn install(&self) -> io::Result<()> {
        let mut command = unprivileged(&program("mariadb-install-db")?, false);
        command.args(["--no-defaults", "--skip-test-db", "--skip-name-resolve"]);
        command.arg("--auth-root-authentication-method=normal");
        command.arg(format!("--datadir={}", self.folder.join("data").display()));
        command.arg(format!("--tmpdir={}", self.folder.join("tmp").display()));
        command.args(["--innodb-log-file-size=32M", "--innodb-flush-log-at-trx-commit=0"]);
        let output = command.stdin(Stdio::null()).output()?;
        if output.status.success() {
            return Ok(());
        }
        let told = [output.stdout, output.stderr].concat();
        Err(io::Error::other(String::from_utf8_lossy(&told).into_owned()))
    }
}

impl Drop for TemporaryMariadb {
    fn drop(&mut self) {
        self.crash();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Returns the user that the server runs as, if it is started by root.
fn user() -> &'static str {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    match users.lines().any(|line| line.starts_with("mysql:")) {
        true => "mysql",
        false => "nobody",
    }
}

/// Returns a command that does not run as root; with `ends` it stops with the thread that starts it.
fn unprivileged(program: &Path, ends: bool) -> Command {
    let mut command = Command::new("setpriv");
    if ends {
        command.args(["--pdeathsig", "KILL"]);
    }
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid", user(), "--clear-groups"]);
    }
    command.arg("--").arg(program).current_dir("/");
    command
}

/// Returns one of MariaDB's programs.
fn program(name: &str) -> io::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/bin"].map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|program| program.is_file()).ok_or_else(|| {
        let message = format!("`{name}` is missing: apt-get install mariadb-server");
        io::Error::new(io::ErrorKind::NotFound, message)
    })
}

/// Deletes the folders of processes that have ended.
fn remove_leavings() {
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(FOLDER_PREFIX)) else {
            continue;
        };
        let process = rest.split('-').next().unwrap_or_default();
        if !Path::new("/proc").join(process).exists() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
