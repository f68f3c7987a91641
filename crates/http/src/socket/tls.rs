//! What TLS a server speaks: by which certificates, for which names, to which clients. The
//! certificates are read again when their files change, by a thread of their own: a file may be on
//! a mount that hangs. The encryption of a connection is in
//! [`session`], and none of the cryptography is ours: it is rustls' with ring.

#[cfg(feature = "acme")]
pub(crate) mod acme;
pub(crate) mod certificates;
pub(crate) mod session;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::time::{Duration, Instant, SystemTime};

use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;

use certificates::{CertificateResolver, CertificateSource, ServerIdentity};

/// How often the files of certificates are looked at, when somebody connects.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long reading them may take before the server's start fails, or the log says so: a mount may
/// hang.
const READING_MAX: Duration = Duration::from_secs(10);
/// Tickets with which a client can come back without a handshake in full, sent on each new
/// connection of TLS 1.3: browsers open several at once.
const TICKETS: usize = 2;

/// The protocols of [`crate::Server`] over TLS: which certificates it shows, and which it asks for.
///
/// TLS 1.3 and 1.2; a client may come back with a ticket instead of a handshake in full, and
/// chooses HTTP/2 or HTTP/1.1 (ALPN).
///
/// ```
/// use marmota_http::{Router, Server, Tls};
/// let running = Server::bind("127.0.0.1:0")?.tls(Tls::self_signed()).start(Router::new())?;
/// # drop(running);
/// // Files, as an ACME client leaves them; a second pair for other names.
/// let tls = Tls::files("/etc/ssl/a.pem", "/etc/ssl/a.key").add_certificate("b.pem", "b.key");
/// # Ok::<(), marmota_http::ServerError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tls {
    certificates: Vec<Source>,
    clients: Option<Clients>,
}

#[derive(Clone, Debug)]
enum Source {
    /// Made at the start, for these names, and written to a file.
    SelfSigned {
        names: Vec<String>,
        file: Option<PathBuf>,
    },
    Files {
        certificate: PathBuf,
        key: PathBuf,
    },
    #[cfg(feature = "acme")]
    Acme(acme::Acme),
}

/// Whose certificates are asked for.
#[derive(Clone, Debug)]
struct Clients {
    ca_file: PathBuf,
    required: bool,
}

/// Why TLS cannot be spoken as asked.
#[derive(Debug)]
pub struct TlsError {
    what: String,
    why: String,
}

impl TlsError {
    fn new(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self { what: what.to_string(), why: why.to_string() }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TLS: {}: {}", self.what, self.why)
    }
}

impl std::error::Error for TlsError {}

impl Tls {
    /// A certificate made at each start, for `localhost` and the loopback's addresses: for
    /// development, since nobody vouches for it.
    pub fn self_signed() -> Self {
        Self::self_signed_for(["localhost", "127.0.0.1", "::1"])
    }

    /// As [`Tls::self_signed`], for these host names and addresses.
    pub fn self_signed_for<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        Self { certificates: vec![Source::SelfSigned { names, file: None }], clients: None }
    }

    /// Has the certificates that are made at the start ([`Tls::self_signed`]) written to a file (PEM),
    /// for clients that are to believe this server and no other: `curl --cacert FILE`. It is there
    /// when [`crate::Server::start`] returns; certificates of other kinds are where they were.
    #[must_use]
    pub fn certificate_file(mut self, written: impl Into<PathBuf>) -> Self {
        let written = written.into();
        for source in &mut self.certificates {
            if let Source::SelfSigned { file, .. } = source {
                *file = Some(written.clone());
            }
        }
        self
    }

    /// A certificate with those that vouch for it behind it, and its private key, both PEM. When
    /// the files change, the next connection has the new ones; if they cannot be used, the old
    /// ones are kept and the log says why.
    pub fn files(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        let source = Source::Files { certificate: certificate.into(), key: key.into() };
        Self { certificates: vec![source], clients: None }
    }

    /// Certificates that the server asks an authority for by itself.
    #[cfg(feature = "acme")]
    pub fn acme(acme: acme::Acme) -> Self {
        Self { certificates: vec![Source::Acme(acme)], clients: None }
    }

    /// A further certificate: each client is shown the first that has the name it asks for, or
    /// else the first of all.
    #[must_use]
    pub fn add_certificate(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        let source = Source::Files { certificate: certificate.into(), key: key.into() };
        self.certificates.push(source);
        self
    }

    /// Takes only clients with a certificate for which one of those in this file (PEM) vouches;
    /// [`crate::Request::client_certificate`] has it.
    #[must_use]
    pub fn client_ca_file(mut self, ca_file: impl Into<PathBuf>) -> Self {
        self.clients = Some(Clients { ca_file: ca_file.into(), required: true });
        self
    }

    /// As [`Tls::client_ca_file`], but clients without a certificate are taken too.
    #[must_use]
    pub fn client_ca_file_optional(mut self, ca_file: impl Into<PathBuf>) -> Self {
        self.clients = Some(Clients { ca_file: ca_file.into(), required: false });
        self
    }

    fn files_of(&self) -> impl Iterator<Item = &PathBuf> {
        let certificates = self.certificates.iter().flat_map(|source| match source {
            Source::Files { certificate, key } => [Some(certificate), Some(key)],
            _ => [None, None],
        });
        certificates.flatten().chain(self.clients.iter().map(|clients| &clients.ca_file))
    }
}

/// A file as it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileStamp(Option<(SystemTime, u64)>);

impl FileStamp {
    fn of(path: &PathBuf) -> Self {
        let found = std::fs::metadata(path).ok();
        Self(found.and_then(|file| Some((file.modified().ok()?, file.len()))))
    }
}

/// The TLS of a server: what [`Tls`] says, prepared, and renewed when its files change.
#[derive(Debug)]
pub(crate) struct Acceptor {
    tls: Tls,
    /// What no file has, which is made once.
    made: Vec<Option<CertificateSource>>,
    current: RwLock<Arc<ServerConfig>>,
    look: Mutex<ReloadState>,
    /// The files as they were when they were last read; the reading thread's.
    stamps: Mutex<Vec<FileStamp>>,
    /// A thread looks at the files.
    is_reloading: AtomicBool,
}

/// When the files are looked at.
#[derive(Debug)]
struct ReloadState {
    next: Instant,
    /// When the thread began that looks at them.
    begun: Instant,
    /// The log says that it takes long.
    is_reported: bool,
}

/// A look at the files, until it is over.
struct ReloadGuard(Arc<Acceptor>);

impl Drop for ReloadGuard {
    fn drop(&mut self) {
        self.0.is_reloading.store(false, Ordering::Release);
    }
}

impl Acceptor {
    pub(crate) fn new(tls: Tls) -> Result<Self, TlsError> {
        let make = |source: &Source| match source {
            Source::SelfSigned { names, file } => {
                let made = ServerIdentity::self_signed(names, file.as_deref())?;
                Ok(Some(CertificateSource::Own(made)))
            }
            Source::Files { .. } => Ok(None),
            #[cfg(feature = "acme")]
            Source::Acme(acme) => Ok(Some(CertificateSource::AcmeCertificate(Arc::new(
                acme::AcmeCertificate::begin(acme)?,
            )))),
        };
        let made = tls.certificates.iter().map(make).collect::<Result<Vec<_>, TlsError>>()?;
        let (stamps, config) = match tls.files_of().next() {
            None => (Vec::new(), prepare(&tls, &made)?),
            Some(_) => read_in_time(&tls, &made)?,
        };
        let now = Instant::now();
        let look = ReloadState { next: now + CHECK_INTERVAL, begun: now, is_reported: false };
        Ok(Self {
            tls,
            made,
            current: RwLock::new(Arc::new(config)),
            look: Mutex::new(look),
            stamps: Mutex::new(stamps),
            is_reloading: AtomicBool::new(false),
        })
    }

    /// What a new connection is accepted by. It never waits for a file.
    pub(crate) fn config(self: &Arc<Self>) -> Arc<ServerConfig> {
        // A thread that finds another here takes what is there.
        if let Ok(mut look) = self.look.try_lock() {
            let now = Instant::now();
            if now >= look.next {
                look.next = now + CHECK_INTERVAL;
                self.check_files(&mut look, now, false);
            }
        }
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has the files read again, even if they seem to be what they were. False if there are none.
    pub(crate) fn reload(self: &Arc<Self>) -> bool {
        let mut look = self.look.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_files(&mut look, Instant::now(), true);
        self.tls.files_of().next().is_some()
    }

    /// Has a thread look at the files, unless one does.
    fn check_files(self: &Arc<Self>, look: &mut ReloadState, now: Instant, always: bool) {
        if self.tls.files_of().next().is_none() {
            return;
        }
        if self.is_reloading.swap(true, Ordering::Acquire) {
            if now - look.begun > READING_MAX && !std::mem::replace(&mut look.is_reported, true) {
                let s = READING_MAX.as_secs();
                log::warn!(
                    "TLS: reading the certificates takes more than {s} s; what was read before is \
                     used on"
                );
            }
            return;
        }
        (look.begun, look.is_reported) = (now, false);
        let looking = ReloadGuard(Arc::clone(self));
        let thread = std::thread::Builder::new().name("marmota-certificates".to_owned());
        let begun = thread.spawn(move || looking.0.renew(always));
        if let Err(error) = begun {
            log::debug!("TLS: no thread to look at the certificates: {error}");
        }
    }

    fn renew(&self, always: bool) {
        let mut stamps = self.stamps.lock().unwrap_or_else(PoisonError::into_inner);
        let found: Vec<FileStamp> = self.tls.files_of().map(FileStamp::of).collect();
        if found == *stamps && !always {
            return;
        }
        // Tickets of before are not taken any more: whom they vouch for was decided by other
        // files.
        match prepare(&self.tls, &self.made) {
            Ok(config) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
                log::info!("TLS: the certificates were read again");
            }
            Err(error) => log::warn!("{error}; what was read before is used on"),
        }
        *stamps = found;
    }
}

/// Reads the files on another thread, and waits for it as long as that may take.
fn read_in_time(
    tls: &Tls,
    made: &[Option<CertificateSource>],
) -> Result<(Vec<FileStamp>, ServerConfig), TlsError> {
    let (tls, made) = (tls.clone(), made.to_vec());
    let (sender, receiver) = mpsc::channel();
    let read = move || {
        let stamps = tls.files_of().map(FileStamp::of).collect();
        let config = prepare(&tls, &made);
        // The other side may have given up.
        let _ = sender.send(config.map(|config| (stamps, config)));
    };
    let thread = std::thread::Builder::new().name("marmota-certificates".to_owned());
    thread.spawn(read).map_err(|error| TlsError::new("reading the certificates", error))?;
    let late = |_| {
        let why = format!("not done within {} s", READING_MAX.as_secs());
        TlsError::new("reading the certificates", why)
    };
    receiver.recv_timeout(READING_MAX).map_err(late)?
}

fn prepare(tls: &Tls, made: &[Option<CertificateSource>]) -> Result<ServerConfig, TlsError> {
    for path in tls.files_of() {
        // A pipe would keep its reader waiting.
        let is_other = std::fs::metadata(path).is_ok_and(|found| !found.is_file());
        if is_other {
            return Err(TlsError::new(path.display(), "not a regular file"));
        }
    }
    let broken = |error| TlsError::new("setting up", error);
    let provider = Arc::new(ring::default_provider());
    let mut shown = Vec::new();
    for (source, made) in tls.certificates.iter().zip(made) {
        match (source, made) {
            (_, Some(made)) => shown.push(made.clone()),
            (Source::Files { certificate, key }, None) => {
                shown.push(CertificateSource::Own(ServerIdentity::read(
                    certificate,
                    key,
                    &provider,
                )?));
            }
            // It was made.
            (_, None) => {}
        }
    }
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(broken)?;
    let builder = match &tls.clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let fails = |error: &dyn fmt::Display| TlsError::new(clients.ca_file.display(), error);
            let mut roots = RootCertStore::empty();
            let found = CertificateDer::pem_file_iter(&clients.ca_file);
            for authority in found.map_err(|error| fails(&error))? {
                let authority = authority.map_err(|error| fails(&error))?;
                roots.add(authority).map_err(|error| fails(&error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = match clients.required {
                true => verifier,
                false => verifier.allow_unauthenticated(),
            };
            builder.with_client_cert_verifier(verifier.build().map_err(|error| fails(&error))?)
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(CertificateResolver(shown)));
    #[cfg(feature = "http2")]
    config.alpn_protocols.push(b"h2".to_vec());
    config.alpn_protocols.push(b"http/1.1".to_vec());
    #[cfg(feature = "acme")]
    if tls.certificates.iter().any(|source| matches!(source, Source::Acme(_))) {
        config.alpn_protocols.push(acme::ALPN.to_vec());
    }
    config.ticketer = ring::Ticketer::new().map_err(broken)?;
    config.send_tls13_tickets = TICKETS;
    Ok(config)
}
