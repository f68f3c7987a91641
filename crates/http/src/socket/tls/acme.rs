//! Certificates that the server requests by itself: ACME (RFC 8555), with the challenge that is
//! answered on the same port (TLS-ALPN-01, RFC 8737).
//!
//! The protocol is that of `rustls-acme`. This file gives it a thread, a folder, and its place
//! among the other certificates. The thread is woken by the timers and sockets of `rustls-acme`,
//! and ends with the server.

use std::fmt;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use futures_core::Stream;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, DnsName};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore};
use rustls_acme::acme::{ACME_TLS_ALPN_NAME, LETS_ENCRYPT_PRODUCTION_DIRECTORY};
use rustls_acme::caches::DirCache;
use rustls_acme::{AcmeConfig, AcmeState, ResolvesServerCertAcme, is_tls_alpn_challenge};

use super::TlsError;

/// The protocol that an authority negotiates (ALPN) when it checks the ownership of a name.
pub(super) const ALPN: &[u8] = ACME_TLS_ALPN_NAME;

/// Certificates of an authority that issues them automatically. Default: Let's Encrypt.
///
/// By using it you accept the authority's terms of service. The names must lead to this server's
/// port 443, where the authority checks the ownership. Until the first certificate is issued,
/// connections by these names fail in the handshake. Failures are logged and tried again. A
/// certificate is renewed when a third of its time is left.
///
/// ```no_run
/// use marmota_http::{Acme, Router, Server, Tls};
/// let acme = Acme::new(["example.org", "www.example.org"]).contact("admin@example.org");
/// let tls = Tls::acme(acme.folder("/var/lib/app/acme"));
/// Server::bind("0.0.0.0:443")?.tls(tls).run(Router::new())?;
/// # Ok::<(), marmota_http::ServerError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Acme {
    /// The host names of the certificate.
    names: Vec<String>,
    /// `mailto:` URLs of the operator.
    contacts: Vec<String>,
    /// The folder of the account and the certificate.
    folder: PathBuf,
    /// The URL of the authority's directory.
    directory: String,
    /// The authority of the directory's own certificate.
    ca_file: Option<PathBuf>,
}

impl Acme {
    /// Requests one certificate for these host names. Wildcards (`*.example.org`) are not possible
    /// with this challenge; the start of the server fails for them.
    ///
    /// ```
    /// use marmota_http::Acme;
    /// let acme = Acme::new(["example.org", "www.example.org"]);
    /// ```
    pub fn new<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self {
            names: names.into_iter().map(Into::into).collect(),
            contacts: Vec::new(),
            folder: PathBuf::from("acme"),
            directory: LETS_ENCRYPT_PRODUCTION_DIRECTORY.to_owned(),
            ca_file: None,
        }
    }

    /// Adds a mail address to which the authority may write, for example about an expiring
    /// certificate. Default: none.
    ///
    /// ```
    /// # use marmota_http::Acme;
    /// let acme = Acme::new(["example.org"])
    ///     .contact("admin@example.org")
    ///     .contact("ops@example.org");
    /// ```
    pub fn contact(mut self, address: &str) -> Self {
        let address = address.strip_prefix("mailto:").unwrap_or(address);
        self.contacts.push(format!("mailto:{address}"));
        self
    }

    /// Sets the folder of the account and the certificate, with their keys. It is created, for its
    /// owner only, if it is missing. Default: `acme` in the working directory.
    ///
    /// Keep it between starts: authorities limit the number of new certificates per week.
    ///
    /// ```
    /// # use marmota_http::Acme;
    /// let acme = Acme::new(["example.org"]).folder("/var/lib/app/acme");
    /// ```
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = folder.into();
        self
    }

    /// Sets the URL of the directory of another authority (RFC 8555, 7.1.1), for example that of
    /// Let's Encrypt for tests, whose limits are wide and whose certificates browsers refuse.
    ///
    /// ```
    /// # use marmota_http::Acme;
    /// let acme = Acme::new(["example.org"])
    ///     .directory("https://acme-staging-v02.api.letsencrypt.org/directory");
    /// ```
    pub fn directory(mut self, url: impl Into<String>) -> Self {
        self.directory = url.into();
        self
    }

    /// Sets the file (PEM) of the authorities that are trusted for the directory's own certificate,
    /// for an authority within a company. Default: those that browsers trust.
    ///
    /// ```
    /// # use marmota_http::Acme;
    /// let acme = Acme::new(["app.intern.example.org"])
    ///     .directory("https://ca.intern.example.org/acme/directory")
    ///     .ca_file("/etc/ssl/company-ca.pem");
    /// ```
    pub fn ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(file.into());
        self
    }

    /// Checks the settings, before the authority is contacted.
    fn check(&self) -> Result<(), TlsError> {
        let fails = |why: &str| Err(TlsError::new("ACME", why));
        if self.names.is_empty() {
            return fails("there is no host name to request a certificate for");
        }
        for name in &self.names {
            if DnsName::try_from(name.as_str()).is_err() || !name.contains('.') {
                let why = format!(
                    "`{name}` is not a host name that a certificate can be issued for: use one \
                     such as example.org, without * and without a port"
                );
                return fails(&why);
            }
        }
        if !self.directory.starts_with("https://") {
            return fails(&format!("`{}` is not a URL that begins with https://", self.directory));
        }
        Ok(())
    }

    /// Makes the configuration of `rustls-acme`, and creates the folder.
    fn config(&self) -> Result<AcmeConfig<std::io::Error>, TlsError> {
        self.check()?;
        let config = match &self.ca_file {
            None => AcmeConfig::new(&self.names),
            Some(file) => {
                let client = Arc::new(trusting(file)?);
                AcmeConfig::new_with_client_config(&self.names, client)
            }
        };
        // It contains keys.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        made.map_err(|error| TlsError::new(self.folder.display(), error))?;
        let config = config.contact(&self.contacts).directory(&self.directory);
        Ok(config.cache(DirCache::new(self.folder.clone())))
    }
}

/// Returns the configuration of a client that trusts the authorities in a file.
fn trusting(file: &Path) -> Result<ClientConfig, TlsError> {
    let fails = |error: &dyn fmt::Display| TlsError::new(file.display(), error);
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_file_iter(file).map_err(|error| fails(&error))? {
        let authority = authority.map_err(|error| fails(&error))?;
        roots.add(authority).map_err(|error| fails(&error))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| fails(&error))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// A certificate that is requested, and renewed, until this value is dropped.
pub(super) struct AcmeCertificate {
    /// The host names of the certificate.
    names: Vec<String>,
    /// The current certificate, which the thread replaces.
    resolver: Arc<ResolvesServerCertAcme>,
    /// The thread that requests it, to be woken when it is to end.
    thread: Thread,
    /// The thread is to end.
    stopped: Arc<AtomicBool>,
}

impl AcmeCertificate {
    pub(super) fn begin(acme: &Acme) -> Result<Self, TlsError> {
        let state = acme.config()?.state();
        let resolver = state.resolver();
        let stopped = Arc::new(AtomicBool::new(false));
        let own = Arc::clone(&stopped);
        let thread = std::thread::Builder::new().name("marmota-acme".to_owned());
        let started = thread.spawn(move || run(state, &own));
        let thread = started.map_err(|error| TlsError::new("a thread for ACME", error))?;
        let (thread, names) = (thread.thread().clone(), acme.names.clone());
        Ok(Self { names, resolver, thread, stopped })
    }

    /// Returns true if the certificate is for this name.
    pub(super) fn is_for(&self, name: &str) -> bool {
        self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Returns the certificate for a client; `None` until one was issued.
    pub(super) fn resolve(&self, client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.resolver.resolve(client)
    }
}

impl fmt::Debug for AcmeCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AcmeCertificate({})", self.names.join(", "))
    }
}

impl Drop for AcmeCertificate {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Returns true if the client is an authority that checks the ownership of a name.
pub(super) fn is_challenge(client: &ClientHello<'_>) -> bool {
    is_tls_alpn_challenge(client)
}

/// Wakes the thread of the protocol.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs the protocol until it is stopped.
fn run(mut state: AcmeState<std::io::Error>, stopped: &AtomicBool) {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    while !stopped.load(Ordering::Acquire) {
        match Pin::new(&mut state).poll_next(&mut context) {
            Poll::Ready(Some(Ok(event))) => log::info!("ACME: {event:?}"),
            Poll::Ready(Some(Err(error))) => log::warn!("ACME: {error}; trying again"),
            Poll::Ready(None) => return,
            Poll::Pending => std::thread::park(),
        }
    }
}
