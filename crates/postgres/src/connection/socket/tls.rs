//! TLS with libpq's `sslmode`: the checks of the server's certificate.

use std::io::{self, ErrorKind as Io};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};

use crate::options::{Host, PostgresOptions, TlsMode};

/// Creates a client before its handshake.
pub(super) fn client(options: &PostgresOptions) -> io::Result<ClientConnection> {
    let Host::Tcp(host) = &options.host else {
        return Err(io::Error::new(Io::Unsupported, "a Unix socket is not encrypted"));
    };
    let refused = |error: &dyn std::fmt::Display| {
        io::Error::new(Io::InvalidInput, format!("TLS cannot begin: {error}"))
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new(options, &provider)?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    let name = ServerName::try_from(host.clone()).map_err(|error| refused(&error))?;
    ClientConnection::new(Arc::new(config), name).map_err(|error| refused(&error))
}

/// Performs exactly the checks of the mode.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// Checks the signature of the certificate; `None` if that is not checked.
    signed: Option<Arc<WebPkiServerVerifier>>,
    named: bool,
}

impl Verifier {
    fn new(options: &PostgresOptions, provider: &Arc<CryptoProvider>) -> io::Result<Self> {
        let mode = options.tls_mode;
        let root = options.tls_root.clone().or_else(default_root);
        let signed = match (mode, root) {
            (TlsMode::Disable | TlsMode::Prefer, _) | (TlsMode::Require, None) => None,
            (_, Some(path)) => Some(signed_by(&path, provider)?),
            (_, None) => {
                return Err(io::Error::new(
                    Io::InvalidInput,
                    "sslmode requires a certificate that is signed by a known root: name the file \
                     of the root certificate with sslrootcert, or save it as ~/.postgresql/root.crt",
                ));
            }
        };
        let named = mode == TlsMode::VerifyFull;
        Ok(Self { provider: Arc::clone(provider), signed, named })
    }
}

fn default_root() -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("HOME")?).join(".postgresql/root.crt");
    path.is_file().then_some(path)
}

fn signed_by(
    path: &std::path::Path,
    provider: &Arc<CryptoProvider>,
) -> io::Result<Arc<WebPkiServerVerifier>> {
    let refused = |error: &dyn std::fmt::Display| {
        let message = format!("the root certificate {} cannot be used: {error}", path.display());
        io::Error::new(Io::InvalidInput, message)
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| refused(&error))? {
        roots
            .add(certificate.map_err(|error| refused(&error))?)
            .map_err(|error| refused(&error))?;
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| refused(&error))
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(signed) = &self.signed else { return Ok(ServerCertVerified::assertion()) };
        match signed.verify_server_cert(end, between, name, stapled, now) {
            // The name is checked last, after all other checks have succeeded.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.named => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
