//! Certificates and the names they are for: reading them, making one for development, and
//! choosing one by the name that a client asks for.

use std::path::Path;
use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::TlsError;

/// A certificate, those that vouch for it, and its key.
#[derive(Clone, Debug)]
pub(crate) struct Identity(Arc<CertifiedKey>);

impl Identity {
    /// Reads PEM files.
    pub(crate) fn read(
        certificate: &Path,
        key: &Path,
        provider: &CryptoProvider,
    ) -> Result<Self, TlsError> {
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| TlsError::new(certificate.display(), error))?;
        if chain.is_empty() {
            return Err(TlsError::new(certificate.display(), "the file has no certificate (PEM)"));
        }
        let private = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| TlsError::new(key.display(), error))?;
        let certified = CertifiedKey::from_der(chain, private, provider).map_err(|error| {
            let pair = format!("{} with {}", certificate.display(), key.display());
            TlsError::new(pair, error)
        })?;
        Ok(Self(Arc::new(certified)))
    }

    /// Makes one that nobody vouches for.
    pub(crate) fn self_signed(names: &[String]) -> Result<Self, TlsError> {
        let fails = |error: &dyn std::fmt::Display| {
            TlsError::new(format!("a certificate for {}", names.join(", ")), error)
        };
        let made = rcgen::generate_simple_self_signed(names).map_err(|error| fails(&error))?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let certified = CertifiedKey::from_der(
            vec![made.cert.der().clone()],
            key.into(),
            &ring::default_provider(),
        );
        Ok(Self(Arc::new(certified.map_err(|error| fails(&error))?)))
    }

    fn is_for(&self, name: &ServerName<'_>) -> bool {
        let certificate = self.0.cert.first().map(ParsedCertificate::try_from);
        certificate.is_some_and(|certificate| {
            certificate.is_ok_and(|certificate| verify_server_name(&certificate, name).is_ok())
        })
    }
}

/// All certificates of a server.
#[derive(Debug)]
pub(super) struct Names(pub(super) Vec<Identity>);

impl ResolvesServerCert for Names {
    fn resolve(&self, client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asked = client.server_name().and_then(|name| ServerName::try_from(name).ok());
        let fit = match (&self.0[..], asked) {
            ([several @ .., _], Some(name)) if !several.is_empty() => {
                self.0.iter().find(|identity| identity.is_for(&name))
            }
            _ => None,
        };
        fit.or(self.0.first()).map(|identity| Arc::clone(&identity.0))
    }
}
