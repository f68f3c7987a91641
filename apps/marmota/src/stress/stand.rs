//! A server of the rows' model, and how clients open it.

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

/// See the module.
pub(super) struct Stand {
    pub(super) name: &'static str,
    target: Target,
    // In the order in which they end.
    _server: Option<RunningServer>,
    _folder: Option<Folder>,
}

enum Target {
    Service(Service),
    Url(String, Option<PathBuf>),
}

impl Stand {
    /// A server that somebody else runs.
    pub(super) fn elsewhere(url: &str) -> Self {
        Self {
            name: "given server",
            target: Target::Url(url.to_owned(), None),
            _server: None,
            _folder: None,
        }
    }

    /// The same, for whose certificate one in this file vouches.
    pub(super) fn believing(mut self, file: Option<&Path>) -> Self {
        if let Target::Url(_, ca_file) = &mut self.target {
            *ca_file = file.map(Path::to_path_buf);
        }
        self
    }

    /// A server of this process.
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
        Ok(Self { name: transport.name(), target, _server: server, _folder: Some(folder) })
    }

    /// A client with a connection of its own for each thread that uses it, from an address of
    /// this machine if one is named.
    pub(super) fn client(&self, local: Option<IpAddr>) -> Result<Store, marmota::Error> {
        let mut remote = match &self.target {
            Target::Service(service) => Remote::in_process(service),
            Target::Url(url, None) => Remote::from_url(url)?,
            Target::Url(url, Some(ca_file)) => Remote::from_url(url)?.ca_file(ca_file),
        };
        if let Some(local) = local {
            remote = remote.local_address(local);
        }
        Store::builder(remote).model::<Sample>().open()
    }
}

/// The store that is served.
fn open(db: &str) -> Result<Store, marmota::Error> {
    marmota::open(db)?.model::<Sample>().open()
}

/// How the rows' model is served.
#[derive(Clone, Copy)]
pub(super) struct How {
    /// The port, with other processes.
    pub(super) shares: bool,
    /// Until standard input ends as well: with the process that holds its other end.
    pub(super) is_attended: bool,
}

/// Serves the rows' model until a signal ends it.
pub(super) fn serve(address: &str, how: How, db: Option<&str>) -> Done {
    // None if it is not needed: whoever is killed leaves it behind.
    let folder = db.is_none().then(Folder::new).transpose()?;
    let file = folder.as_ref().map(Folder::file);
    // What the server has to say, such as that descriptors run out.
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
            // Its end, or that it cannot be read: nobody attends any more.
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            handle.shutdown();
        });
    }
    running.join()?;
    store.close()?;
    Ok(ExitCode::SUCCESS)
}

/// What a client is to be given.
fn url(server: &Server) -> String {
    let url = server.url();
    if url.starts_with("http") { url + "/api" } else { url }
}

/// A folder for temporary files, removed at the end.
pub(crate) struct Folder(pub(crate) std::path::PathBuf);

impl Folder {
    pub(super) fn new() -> std::io::Result<Self> {
        Self::below(&std::env::temp_dir())
    }

    /// One where nothing waits for a disk, if the system has such a place.
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

    /// The URL of a SQLite file in it.
    pub(super) fn file(&self) -> String {
        format!("sqlite:{}", self.0.join("stress.db").display())
    }

    /// The file of a server's certificate in it.
    fn certificate(&self) -> PathBuf {
        self.0.join("certificate.pem")
    }

    /// The address of a Unix socket in it.
    pub(super) fn socket(&self) -> String {
        format!("unix:{}", self.0.join("socket").display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays is the system's to clear.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
