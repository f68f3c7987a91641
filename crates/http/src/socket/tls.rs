//! The settings of TLS ([`Tls`]), and the certificates of a running server ([`Acceptor`]).
//!
//! A server shows a certificate by the name that the client requests (SNI), and may request one
//! from the client. Files are read again when they change, by a separate thread, because a file may
//! be on a mount that hangs: a connection never waits for a file. The encryption of a connection is
//! in [`session`]. All cryptography is that of rustls with ring.
//!
//! ```text
//! Tls (settings) -> Acceptor (per server) -> ServerConfig (shared) -> Session (per connection)
//!                      ^ reads files again, in a thread
//! ```

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

/// The interval at which the files are checked, when clients connect.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The time after which the start of the server fails, or a warning is logged, if the files cannot
/// be read: a mount may hang.
const READING_MAX: Duration = Duration::from_secs(10);
/// The number of tickets for a new connection without a complete handshake, which are sent on each
/// connection of TLS 1.3: browsers open several connections at once.
const TICKETS: usize = 2;

/// The settings of TLS on a [`Server`](crate::Server): the certificates that it shows, and those
/// that it requests from clients.
///
/// TLS 1.3 (RFC 8446) and 1.2. A client may return with a ticket instead of a complete handshake,
/// and chooses HTTP/2 or HTTP/1.1 (ALPN). Unix sockets of the server are not encrypted.
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
    /// The sources of certificates, in order of preference.
    certificates: Vec<Source>,
    /// The certificates requested from clients.
    clients: Option<Clients>,
}

/// A source of certificates.
#[derive(Clone, Debug)]
enum Source {
    /// Generated at the start, for these names, and written to a file if one is set.
    SelfSigned {
        /// Host names and addresses.
        names: Vec<String>,
        /// The file for the certificate, without its key.
        file: Option<PathBuf>,
    },
    /// Two files (PEM).
    Files {
        /// The certificate and the certificates that signed it.
        certificate: PathBuf,
        /// The private key.
        key: PathBuf,
    },
    /// Requested from an authority.
    #[cfg(feature = "acme")]
    Acme(acme::Acme),
}

/// The certificates that are requested from clients.
#[derive(Clone, Debug)]
struct Clients {
    /// The authorities that are trusted to sign them (PEM).
    ca_file: PathBuf,
    /// A client without a certificate is refused.
    required: bool,
}

/// The reason why TLS cannot be used as configured: a file that is missing or has no certificate, a
/// key that does not fit, an invalid name. Its text names the file.
///
/// ```
/// use marmota_http::{Router, Server, Tls};
/// let server = Server::bind("127.0.0.1:0")?.tls(Tls::files("/missing.pem", "/missing.key"));
/// let error = server.start(Router::new()).unwrap_err();
/// assert!(error.to_string().contains("/missing.pem"));
/// # Ok::<(), marmota_http::ServerError>(())
/// ```
#[derive(Debug)]
pub struct TlsError {
    /// The file or the step that failed.
    subject: String,
    /// The reason, for people.
    reason: String,
}

impl TlsError {
    /// Returns an error about this file or step.
    fn new(subject: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self { subject: subject.to_string(), reason: reason.to_string() }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TLS: {}: {}", self.subject, self.reason)
    }
}

impl std::error::Error for TlsError {}

impl Tls {
    /// Uses a certificate that is generated at each start, for `localhost` and the addresses of the
    /// loopback interface: for development, since no authority has signed it. Clients must be set
    /// up to trust it ([`Tls::certificate_file`]).
    ///
    /// ```
    /// use marmota_http::{Router, Server, Tls};
    /// let running = Server::bind("127.0.0.1:0")?.tls(Tls::self_signed()).start(Router::new())?;
    /// # drop(running);
    /// # Ok::<(), marmota_http::ServerError>(())
    /// ```
    pub fn self_signed() -> Self {
        Self::self_signed_for(["localhost", "127.0.0.1", "::1"])
    }

    /// Like [`Tls::self_signed`], for these host names and addresses.
    ///
    /// ```
    /// use marmota_http::Tls;
    /// let tls = Tls::self_signed_for(["dev.example.org", "192.0.2.7"]);
    /// ```
    pub fn self_signed_for<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        Self { certificates: vec![Source::SelfSigned { names, file: None }], clients: None }
    }

    /// Writes the certificates that are generated at the start ([`Tls::self_signed`]) to a file
    /// (PEM), for clients that are to trust this server and no other: `curl --cacert FILE`. The
    /// file exists when [`Server::start`](crate::Server::start) returns. It has no effect on other
    /// certificates.
    ///
    /// ```
    /// use marmota_http::{Router, Server, Tls};
    /// let folder = tempfile::tempdir()?;
    /// let file = folder.path().join("ca.pem");
    /// let tls = Tls::self_signed().certificate_file(&file);
    /// let running = Server::bind("127.0.0.1:0")?.tls(tls).start(Router::new())?;
    /// assert!(std::fs::read_to_string(&file)?.contains("BEGIN CERTIFICATE"));
    /// # drop(running);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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

    /// Uses a certificate, followed by the certificates that have signed it, and its private key,
    /// both PEM (RFC 7468).
    ///
    /// The files are checked at most once a second. When they have changed, the next connection
    /// gets the new certificate; if they cannot be used, the old one is kept and a warning is
    /// logged.
    ///
    /// ```
    /// use marmota_http::Tls;
    /// let folder = std::path::Path::new("/etc/letsencrypt/live/example.org");
    /// let tls = Tls::files(folder.join("fullchain.pem"), folder.join("privkey.pem"));
    /// ```
    pub fn files(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        let source = Source::Files { certificate: certificate.into(), key: key.into() };
        Self { certificates: vec![source], clients: None }
    }

    /// Uses certificates that the server requests from an authority and renews: see
    /// [`Acme`](crate::Acme).
    ///
    /// ```
    /// use marmota_http::{Acme, Tls};
    /// let tls = Tls::acme(Acme::new(["example.org"]).folder("/var/lib/app/acme"));
    /// ```
    #[cfg(feature = "acme")]
    pub fn acme(acme: acme::Acme) -> Self {
        Self { certificates: vec![Source::Acme(acme)], clients: None }
    }

    /// Adds a certificate. Each client is shown the first one that is valid for the name it
    /// requests, or else the first of all.
    ///
    /// ```
    /// use marmota_http::Tls;
    /// let tls = Tls::files("a.pem", "a.key").add_certificate("b.pem", "b.key");
    /// ```
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

    /// Accepts only clients with a certificate signed by one of the authorities in this file (PEM):
    /// mutual TLS. The handshake fails for others.
    /// [`Request::client_certificate`](crate::Request::client_certificate) returns the certificate.
    ///
    /// ```
    /// use marmota_http::{Request, Status, Tls};
    /// let tls = Tls::files("a.pem", "a.key").client_ca_file("clients.pem");
    ///
    /// async fn fingerprint(request: Request) -> Result<String, Status> {
    ///     let certificate = request.client_certificate().ok_or(Status::FORBIDDEN)?;
    ///     Ok(format!("{} bytes of DER", certificate.len()))
    /// }
    /// # marmota_http::Router::new().get("/", fingerprint);
    /// ```
    #[must_use]
    pub fn client_ca_file(mut self, ca_file: impl Into<PathBuf>) -> Self {
        self.clients = Some(Clients { ca_file: ca_file.into(), required: true });
        self
    }

    /// Like [`Tls::client_ca_file`], but accepts clients without a certificate too. One that is not
    /// valid is refused.
    ///
    /// ```
    /// use marmota_http::Tls;
    /// let tls = Tls::self_signed().client_ca_file_optional("clients.pem");
    /// ```
    #[must_use]
    pub fn client_ca_file_optional(mut self, ca_file: impl Into<PathBuf>) -> Self {
        self.clients = Some(Clients { ca_file: ca_file.into(), required: false });
        self
    }

    /// Returns all files that are read.
    fn files_of(&self) -> impl Iterator<Item = &PathBuf> {
        let certificates = self.certificates.iter().flat_map(|source| match source {
            Source::Files { certificate, key } => [Some(certificate), Some(key)],
            _ => [None, None],
        });
        certificates.flatten().chain(self.clients.iter().map(|clients| &clients.ca_file))
    }
}

/// The state of a file: its time of change and length, or `None` if it is missing. Two equal stamps
/// mean that it need not be read again.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileStamp(Option<(SystemTime, u64)>);

impl FileStamp {
    /// Reads the state of a file.
    fn of(path: &PathBuf) -> Self {
        let found = std::fs::metadata(path).ok();
        Self(found.and_then(|file| Some((file.modified().ok()?, file.len()))))
    }
}

/// The TLS of a server: [`Tls`], prepared, and renewed when its files change.
#[derive(Debug)]
pub(crate) struct Acceptor {
    /// The settings.
    tls: Tls,
    /// The certificates that are not in files, by the index of their source. They are made once.
    generated: Vec<Option<CertificateSource>>,
    /// The configuration for new connections.
    current: RwLock<Arc<ServerConfig>>,
    /// The time of the next check.
    reload_state: Mutex<ReloadState>,
    /// The files as they were when they were last read. Only the reading thread takes this lock.
    stamps: Mutex<Vec<FileStamp>>,
    /// A thread reads the files.
    is_reloading: AtomicBool,
}

/// The times of the checks of the files.
#[derive(Debug)]
struct ReloadState {
    /// The time from which the next connection begins a check.
    next: Instant,
    /// The start of the check in progress.
    begun: Instant,
    /// A warning that the check takes long was logged.
    is_reported: bool,
}

/// A check of the files in progress, until it is dropped, in a panic too.
struct ReloadGuard(Arc<Acceptor>);

impl Drop for ReloadGuard {
    fn drop(&mut self) {
        self.0.is_reloading.store(false, Ordering::Release);
    }
}

impl Acceptor {
    /// Prepares the settings: generates and reads all certificates.
    ///
    /// # Errors
    /// A certificate cannot be used, or the files were not read in time.
    pub(crate) fn new(tls: Tls) -> Result<Self, TlsError> {
        let make = |source: &Source| match source {
            Source::SelfSigned { names, file } => {
                let generated = ServerIdentity::self_signed(names, file.as_deref())?;
                Ok(Some(CertificateSource::Own(generated)))
            }
            Source::Files { .. } => Ok(None),
            #[cfg(feature = "acme")]
            Source::Acme(acme) => {
                Ok(Some(CertificateSource::Acme(Arc::new(acme::AcmeCertificate::begin(acme)?))))
            }
        };
        let generated = tls.certificates.iter().map(make).collect::<Result<Vec<_>, TlsError>>()?;
        let (stamps, config) = match tls.files_of().next() {
            None => (Vec::new(), prepare(&tls, &generated)?),
            Some(_) => read_in_time(&tls, &generated)?,
        };
        let now = Instant::now();
        let reload_state =
            ReloadState { next: now + CHECK_INTERVAL, begun: now, is_reported: false };
        Ok(Self {
            tls,
            generated,
            current: RwLock::new(Arc::new(config)),
            reload_state: Mutex::new(reload_state),
            stamps: Mutex::new(stamps),
            is_reloading: AtomicBool::new(false),
        })
    }

    /// Returns the configuration for a new connection. Begins a check of the files if it is due,
    /// and never waits for it.
    pub(crate) fn config(self: &Arc<Self>) -> Arc<ServerConfig> {
        // A thread that finds the lock taken uses the present configuration.
        if let Ok(mut state) = self.reload_state.try_lock() {
            let now = Instant::now();
            if now >= state.next {
                state.next = now + CHECK_INTERVAL;
                self.check_files(&mut state, now, false);
            }
        }
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins to read the files, even if they have not changed. Returns false if there are no
    /// files.
    pub(crate) fn reload(self: &Arc<Self>) -> bool {
        let mut state = self.reload_state.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_files(&mut state, Instant::now(), true);
        self.tls.files_of().next().is_some()
    }

    /// Starts a thread that checks the files, unless one does.
    fn check_files(self: &Arc<Self>, state: &mut ReloadState, now: Instant, always: bool) {
        if self.tls.files_of().next().is_none() {
            return;
        }
        if self.is_reloading.swap(true, Ordering::Acquire) {
            if now - state.begun > READING_MAX && !std::mem::replace(&mut state.is_reported, true) {
                let s = READING_MAX.as_secs();
                log::warn!(
                    "TLS: reading the certificates takes more than {s} s; the previous \
                     certificates stay in use"
                );
            }
            return;
        }
        (state.begun, state.is_reported) = (now, false);
        let looking = ReloadGuard(Arc::clone(self));
        let thread = std::thread::Builder::new().name("marmota-certificates".to_owned());
        let begun = thread.spawn(move || looking.0.renew(always));
        if let Err(error) = begun {
            log::debug!("TLS: cannot start a thread to read the certificates: {error}");
        }
    }

    /// Reads the files if they have changed, or `always`; runs on the thread for it.
    fn renew(&self, always: bool) {
        let mut stamps = self.stamps.lock().unwrap_or_else(PoisonError::into_inner);
        let found: Vec<FileStamp> = self.tls.files_of().map(FileStamp::of).collect();
        if found == *stamps && !always {
            return;
        }
        // Earlier tickets become invalid: other files decided about their clients.
        match prepare(&self.tls, &self.generated) {
            Ok(config) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
                log::info!("TLS: the certificates were read again");
            }
            Err(error) => log::warn!("{error}; the previous certificates stay in use"),
        }
        *stamps = found;
    }
}

/// Reads the files on another thread, and waits for it up to [`READING_MAX`].
fn read_in_time(
    tls: &Tls,
    generated: &[Option<CertificateSource>],
) -> Result<(Vec<FileStamp>, ServerConfig), TlsError> {
    let (tls, generated) = (tls.clone(), generated.to_vec());
    let (sender, receiver) = mpsc::channel();
    let read = move || {
        let stamps = tls.files_of().map(FileStamp::of).collect();
        let config = prepare(&tls, &generated);
        // Fails only if the receiver has timed out.
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

/// Makes the configuration of rustls from the settings and the files as they are now.
fn prepare(tls: &Tls, generated: &[Option<CertificateSource>]) -> Result<ServerConfig, TlsError> {
    for path in tls.files_of() {
        // To read a pipe could block forever.
        let is_other = std::fs::metadata(path).is_ok_and(|found| !found.is_file());
        if is_other {
            return Err(TlsError::new(path.display(), "not a regular file"));
        }
    }
    let broken = |error| TlsError::new("setting up", error);
    let provider = Arc::new(ring::default_provider());
    let mut shown = Vec::new();
    for (source, generated) in tls.certificates.iter().zip(generated) {
        match (source, generated) {
            (_, Some(generated)) => shown.push(generated.clone()),
            (Source::Files { certificate, key }, None) => {
                shown.push(CertificateSource::Own(ServerIdentity::read(
                    certificate,
                    key,
                    &provider,
                )?));
            }
            // It is in `generated`.
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
