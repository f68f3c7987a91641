//! Certificates that the server asks for by itself: ACME (RFC 8555), by the
//! challenge that is answered on the same port (TLS-ALPN-01, RFC 8737). The protocol is that of
//! `rustls-acme`; here it gets a thread, a folder and its place among the other certificates.

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

/// What a client that checks who has a name negotiates (ALPN).
pub(super) const ALPN: &[u8] = ACME_TLS_ALPN_NAME;

/// Certificates of an authority that gives them by itself: Let's Encrypt, unless another is said.
///
/// Whoever uses it accepts the authority's terms of service. The names have to lead to this
/// server's port 443, where the authority looks. Until the first certificate is there, connections
/// by these names fail in the handshake; what goes wrong is in the log, and tried again. A
/// certificate is asked for anew when a third of its time is left.
///
/// ```no_run
/// use marmota_http::{Acme, Router, Server, Tls};
/// let acme = Acme::new(["example.org", "www.example.org"]).contact("who@example.org");
/// Server::bind("0.0.0.0:443")?.tls(Tls::acme(acme.folder("/var/lib/app/acme"))).run(Router::new())?;
/// # Ok::<(), marmota_http::ServerError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Acme {
    names: Vec<String>,
    contacts: Vec<String>,
    folder: PathBuf,
    directory: String,
    ca_file: Option<PathBuf>,
}

impl Acme {
    /// One certificate for these host names.
    pub fn new<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self {
            names: names.into_iter().map(Into::into).collect(),
            contacts: Vec::new(),
            folder: PathBuf::from("acme"),
            directory: LETS_ENCRYPT_PRODUCTION_DIRECTORY.to_owned(),
            ca_file: None,
        }
    }

    /// A mail address that the authority may write to; more of them by more calls.
    pub fn contact(mut self, address: &str) -> Self {
        let address = address.strip_prefix("mailto:").unwrap_or(address);
        self.contacts.push(format!("mailto:{address}"));
        self
    }

    /// Where the account and the certificate are kept, keys among them; `acme` by default. It is
    /// made if it is not there, for its owner alone.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = folder.into();
        self
    }

    /// The URL of another authority's directory, Let's Encrypt's for trials say:
    /// `https://acme-staging-v02.api.letsencrypt.org/directory`.
    pub fn directory(mut self, url: impl Into<String>) -> Self {
        self.directory = url.into();
        self
    }

    /// Who vouches for the directory's own certificate (PEM), for an authority inside a company;
    /// those whom browsers trust by default.
    pub fn ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(file.into());
        self
    }

    fn check(&self) -> Result<(), TlsError> {
        let fails = |why: &str| Err(TlsError::new("ACME", why));
        if self.names.is_empty() {
            return fails("there is no host name to ask a certificate for");
        }
        for name in &self.names {
            if DnsName::try_from(name.as_str()).is_err() || !name.contains('.') {
                let why = format!(
                    "`{name}` is no host name that a certificate is given for: write one such as \
                     example.org, without * and without a port"
                );
                return fails(&why);
            }
        }
        if !self.directory.starts_with("https://") {
            return fails(&format!("`{}` is no URL that begins with https://", self.directory));
        }
        Ok(())
    }

    fn config(&self) -> Result<AcmeConfig<std::io::Error>, TlsError> {
        self.check()?;
        let config = match &self.ca_file {
            None => AcmeConfig::new(&self.names),
            Some(file) => {
                let client = Arc::new(trusting(file)?);
                AcmeConfig::new_with_client_config(&self.names, client)
            }
        };
        // It has keys in it.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        made.map_err(|error| TlsError::new(self.folder.display(), error))?;
        let config = config.contact(&self.contacts).directory(&self.directory);
        Ok(config.cache(DirCache::new(self.folder.clone())))
    }
}

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

/// A certificate that is asked for, and renewed, as long as this lives.
pub(super) struct AcmeCertificate {
    names: Vec<String>,
    resolver: Arc<ResolvesServerCertAcme>,
    thread: Thread,
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

    /// Whether it is the one for a name.
    pub(super) fn is_for(&self, name: &str) -> bool {
        self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// What a client is shown; nothing as long as nothing was given.
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

/// True for an authority that looks who has a name.
pub(super) fn is_challenge(client: &ClientHello<'_>) -> bool {
    is_tls_alpn_challenge(client)
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Goes on with what is to be asked, until it is stopped.
fn run(mut state: AcmeState<std::io::Error>, stopped: &AtomicBool) {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    while !stopped.load(Ordering::Acquire) {
        match Pin::new(&mut state).poll_next(&mut context) {
            Poll::Ready(Some(Ok(event))) => log::info!("ACME: {event:?}"),
            Poll::Ready(Some(Err(error))) => log::warn!("ACME: {error}; it is tried again"),
            Poll::Ready(None) => return,
            Poll::Pending => std::thread::park(),
        }
    }
}
