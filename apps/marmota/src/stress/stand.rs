//! A server of the rows' model, and its clients.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use marmota::command::{Done, notice};
use marmota::http::Tls;
use marmota::http::{RunningServer, Server};
use marmota::remote::{Remote, Service};
use marmota::store::Store;

use super::Transport;
use super::sample::Sample;

pub(super) type Failed = Box<dyn std::error::Error>;

/// A server for the tests, with the way to connect to it.
pub(super) struct Stand {
    pub(super) name: &'static str,
    target: Target,
    /// What authenticates the clients; empty for anonymous ones.
    token: String,
    // In the order in which they must be dropped.
    _server: Option<RunningServer>,
    _folder: Option<Folder>,
}

enum Target {
    Service(Service),
    Url(String, Option<PathBuf>),
}

impl Stand {
    /// A server that is already running elsewhere.
    pub(super) fn elsewhere(url: &str) -> Self {
        Self {
            name: "given server",
            target: Target::Url(url.to_owned(), None),
            token: String::new(),
            _server: None,
            _folder: None,
        }
    }

    /// Sets the CA file for the certificate of such a server.
    pub(super) fn with_ca_file(mut self, file: Option<&Path>) -> Self {
        if let Target::Url(_, ca_file) = &mut self.target {
            *ca_file = file.map(Path::to_path_buf);
        }
        self
    }

    /// Sets the API key or session token of the clients.
    pub(super) fn with_token(mut self, token: Option<&str>) -> Self {
        token.unwrap_or_default().clone_into(&mut self.token);
        self
    }

    /// Starts a server in this process.
    pub(super) fn start(transport: Transport, db: Option<&str>) -> Result<Self, Failed> {
        let folder = Folder::new()?;
        let service = Service::new(&open(db.unwrap_or(&folder.file()))?);
        let (target, server) = match transport {
            Transport::InProcess => (Target::Service(service), None),
            Transport::Unix => {
                let url = folder.socket();
                let server = Server::bind(url.as_str())?.start(service.router())?;
                (Target::Url(url, None), Some(server))
            }
            _ => {
                let server = Server::bind("127.0.0.1:0")?;
                let ca_file = transport.is_encrypted().then(|| folder.certificate());
                let server = match &ca_file {
                    Some(file) => server.tls(Tls::self_signed().certificate_file(file)),
                    None => server,
                };
                let server = server.start(service.router())?;
                let scheme = transport.scheme().unwrap_or_default();
                let url = format!("{scheme}://{}/api", server.local_addr());
                (Target::Url(url, ca_file), Some(server))
            }
        };
        let (name, token) = (transport.name(), String::new());
        Ok(Self { name, target, token, _server: server, _folder: Some(folder) })
    }

    /// Opens a client with one connection for each thread that uses it, from a local address if one
    /// is given.
    pub(super) fn client(&self, local: Option<IpAddr>) -> Result<Store, marmota::Error> {
        let mut remote = match &self.target {
            Target::Service(service) => Remote::in_process(service),
            Target::Url(url, None) => Remote::from_url(url)?,
            Target::Url(url, Some(ca_file)) => Remote::from_url(url)?.ca_file(ca_file),
        };
        if let Some(local) = local {
            remote = remote.local_address(local);
        }
        if !self.token.is_empty() {
            remote = remote.credential(self.token.as_bytes());
        }
        Store::builder(remote).model::<Sample>().open()
    }
}

/// Opens the store that is served.
fn open(db: &str) -> Result<Store, marmota::Error> {
    marmota::open(db)?.model::<Sample>().open()
}

/// The settings of the server.
#[derive(Clone, Copy)]
pub(super) struct ServeOptions {
    /// Shares the port with other processes.
    pub(super) shares: bool,
    /// Also stops when standard input ends, with the process at its other end.
    pub(super) is_attended: bool,
}

/// Serves the rows' model until a signal ends it.
pub(super) fn serve(address: &str, how: ServeOptions, db: Option<&str>) -> Done {
    // Only created if it is needed: a process that is killed does not remove it.
    let folder = db.is_none().then(Folder::new).transpose()?;
    let file = folder.as_ref().map(Folder::file);
    // Warnings of the server, for example that file descriptors run out.
    marmota::Log::start("warn")?;
    let store = open(db.or(file.as_deref()).unwrap_or_default())?;
    let server = if how.shares { Server::bind_shared(address) } else { Server::bind(address) }?;
    let url = url(&server);
    let running = server.start(Service::new(&store).router())?;
    running.shutdown_on_signals()?;
    notice(format_args!("serves the rows of `marmota stress --server …` at {url}"));
    if how.is_attended {
        let handle = running.shutdown_handle();
        thread::spawn(move || {
            // Its end or a read error: the parent process has ended.
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            handle.shutdown();
        });
    }
    running.join()?;
    store.close()?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the URL for clients.
fn url(server: &Server) -> String {
    let url = server.url();
    if url.starts_with("http") { url + "/api" } else { url }
}

/// A folder for temporary files, removed on drop.
pub(crate) struct Folder(pub(crate) std::path::PathBuf);

impl Folder {
    pub(super) fn new() -> std::io::Result<Self> {
        Self::below(&std::env::temp_dir())
    }

    /// Creates a folder on a file system in memory, if the system has one.
    pub(crate) fn in_memory() -> std::io::Result<Self> {
        Self::below(std::path::Path::new("/dev/shm")).or_else(|_| Self::new())
    }

    fn below(place: &std::path::Path) -> std::io::Result<Self> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let name =
            format!("marmota-stress-{}-{}", std::process::id(), now.unwrap_or_default().as_nanos());
        let path = place.join(name);
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    /// Returns the URL of a SQLite file in it.
    pub(super) fn file(&self) -> String {
        format!("sqlite:{}", self.0.join("stress.db").display())
    }

    /// Returns the path of a server's certificate in it.
    fn certificate(&self) -> PathBuf {
        self.0.join("certificate.pem")
    }

    /// Returns the address of a Unix socket in it.
    pub(super) fn socket(&self) -> String {
        format!("unix:{}", self.0.join("socket").display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Files that remain are left to the system.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
