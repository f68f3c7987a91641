//! A database server that Patroni manages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::network::Network;
use crate::process::{Process, run};

/// The size of a server's disk.
const DISK_BYTES: u64 = 700 << 20;

/// A database server with its Patroni.
pub(super) struct Server {
    number: usize,
    folder: PathBuf,
    pub(super) address: String,
    pub(super) port: u16,
    pub(super) rest_port: u16,
    patroni: Option<Process>,
    has_disk: bool,
}

impl Server {
    /// Writes the configuration of a server, in a folder of its own.
    pub(super) fn prepare(network: &Network, number: usize, folder: &Path, etcd: &str) -> Self {
        let folder = folder.join(format!("server{number}"));
        fs::create_dir(&folder).unwrap();
        let has_disk = network.can_be_cut();
        if has_disk {
            let size = format!("size={DISK_BYTES}");
            run(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&folder));
            run(Command::new("chown").arg("postgres").arg(&folder));
        }
        let (port, rest_port) = (network.port(5432), network.port(8008));
        let address = network.address(number);
        let server = Self { number, folder, address, port, rest_port, patroni: None, has_disk };
        server.write_configuration(etcd);
        server
    }

    fn write_configuration(&self, etcd: &str) {
        let Self { number, address, port, rest_port, .. } = self;
        let folder = self.folder.display();
        let programs = postgres_programs();
        let text = format!(
            "scope: marmota
name: server{number}
restapi: {{listen: '{address}:{rest_port}', connect_address: '{address}:{rest_port}'}}
etcd3: {{host: '{etcd}'}}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 2
    retry_timeout: 5
    master_start_timeout: 5
    synchronous_mode: true
    postgresql:
      use_pg_rewind: true
      use_slots: true
      parameters: {{max_connections: 400, shared_buffers: 64MB, wal_keep_size: 64MB, max_wal_size: 128MB, min_wal_size: 80MB}}
  initdb: [{{encoding: UTF8}}, {{locale: C.UTF-8}}, data-checksums, no-sync]
  pg_hba: ['local all all trust', 'host all all 0.0.0.0/0 trust', 'host replication all 0.0.0.0/0 trust']
postgresql:
  listen: '{address}:{port}'
  connect_address: '{address}:{port}'
  data_dir: '{folder}/data'
  bin_dir: '{programs}'
  pgpass: '{folder}/pgpass'
  authentication:
    superuser: {{username: marmota, password: secret}}
    replication: {{username: replicator, password: secret}}
  parameters: {{unix_socket_directories: '{folder}'}}
"
        );
        fs::write(self.configuration(), text).unwrap();
    }

    fn configuration(&self) -> PathBuf {
        self.folder.with_extension("yml")
    }

    pub(super) fn start(&mut self, network: &Network) {
        let mut patroni = network.command(self.number, "patroni");
        let log = fs::File::options().append(true).create(true).open(self.log()).unwrap();
        patroni.arg(self.configuration()).stderr(log.try_clone().unwrap());
        self.patroni = Some(Process::start_with(patroni.stdout(log)));
    }

    /// Returns the path of the log.
    fn log(&self) -> PathBuf {
        self.folder.with_extension("log")
    }

    /// Returns the processes of PostgreSQL, its main process first.
    fn processes(&self) -> Vec<String> {
        let file = fs::read_to_string(self.folder.join("data/postmaster.pid")).unwrap_or_default();
        let Some(main) = file.lines().next() else { return Vec::new() };
        let children = Command::new("pgrep").args(["-P", main]).output().unwrap().stdout;
        let children = String::from_utf8(children).unwrap();
        let all = std::iter::once(main).chain(children.lines());
        all.map(str::to_owned).collect()
    }

    /// Sends a signal to PostgreSQL, and to Patroni before it if `is_whole`.
    pub(super) fn signal(&self, name: &str, is_whole: bool) {
        if let Some(patroni) = self.patroni.as_ref().filter(|_| is_whole) {
            patroni.signal(name);
        }
        // A process may have ended meanwhile.
        let _ = Command::new("kill").arg(name).args(self.processes()).status();
    }

    /// Kills the server with its Patroni.
    pub(super) fn kill(&mut self) {
        self.signal("-KILL", true);
        self.patroni = None;
    }

    /// Fills the disk, or empties it again.
    pub(super) fn fill_disk(&self, is_full: bool) {
        let file = self.folder.join("filling");
        if !is_full {
            return fs::remove_file(file).unwrap();
        }
        // It ends with the error that the disk is full.
        let of = format!("of={}", file.display());
        let filled = Command::new("dd").args(["if=/dev/zero", &of, "bs=1M"]).output().unwrap();
        assert!(!filled.status.success());
        thread::sleep(Duration::from_millis(100));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = fs::read_to_string(self.log()).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(15).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            eprintln!("the log of server {}:\n{}", self.number, last.join("\n"));
        }
        self.signal("-CONT", true);
        self.kill();
        if self.has_disk {
            // The processes end a moment after their signal.
            let _ = Command::new("umount").arg("--lazy").arg(&self.folder).status();
        }
    }
}

/// Returns the folder of PostgreSQL's programs.
fn postgres_programs() -> String {
    let versions = fs::read_dir("/usr/lib/postgresql").unwrap();
    let newest = versions.map(|entry| entry.unwrap().path()).max().unwrap();
    newest.join("bin").display().to_string()
}
