//! Certificates and the names they are valid for: reading them, generating one for development, and
//! choosing one by the name that a client requests (SNI, RFC 6066, 3).
//!
//! The choice runs in each handshake: the first certificate that is valid for the requested name,
//! or else the first of all, also for a client without SNI. With a single certificate nothing is
//! compared.

use std::path::Path;
use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::TlsError;

/// A certificate, the certificates that have signed it, and its key.
#[derive(Clone, Debug)]
pub(crate) struct ServerIdentity(Arc<CertifiedKey>);

impl ServerIdentity {
    /// Reads two PEM files.
    ///
    /// # Errors
    /// A file cannot be read, has no certificate or key, or the key does not fit the certificate.
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

    /// Generates a certificate that no authority has signed, with an ECDSA key, and writes it to
    /// the file, without its key.
    ///
    /// # Errors
    /// A name is not valid in a certificate, or the file cannot be written.
    pub(crate) fn self_signed(names: &[String], file: Option<&Path>) -> Result<Self, TlsError> {
        let fails = |error: &dyn std::fmt::Display| {
            TlsError::new(format!("a certificate for {}", names.join(", ")), error)
        };
        let made = rcgen::generate_simple_self_signed(names).map_err(|error| fails(&error))?;
        if let Some(file) = file {
            std::fs::write(file, made.cert.pem())
                .map_err(|error| TlsError::new(file.display(), error))?;
        }
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let certified = CertifiedKey::from_der(
            vec![made.cert.der().clone()],
            key.into(),
            &ring::default_provider(),
        );
        Ok(Self(Arc::new(certified.map_err(|error| fails(&error))?)))
    }

    /// Returns true if the certificate is valid for this name, by the rules of browsers (RFC 9525).
    fn is_for(&self, name: &ServerName<'_>) -> bool {
        let certificate = self.0.cert.first().map(ParsedCertificate::try_from);
        certificate.is_some_and(|certificate| {
            certificate.is_ok_and(|certificate| verify_server_name(&certificate, name).is_ok())
        })
    }
}

/// A certificate that a server shows. Clones share it.
#[derive(Clone, Debug)]
pub(super) enum CertificateSource {
    /// Read from files, or generated.
    Own(ServerIdentity),
    /// Requested from an authority, and renewed.
    #[cfg(feature = "acme")]
    Acme(Arc<super::acme::AcmeCertificate>),
}

impl CertificateSource {
    /// Returns true if the certificate is for this name.
    fn is_for(&self, name: &str) -> bool {
        match self {
            Self::Own(own) => ServerName::try_from(name).is_ok_and(|name| own.is_for(&name)),
            #[cfg(feature = "acme")]
            Self::Acme(renewed) => renewed.is_for(name),
        }
    }

    /// Returns the certificate; `None` while the authority has not issued one.
    fn certificate(&self, client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        match (self, client) {
            (Self::Own(own), _) => Some(Arc::clone(&own.0)),
            #[cfg(feature = "acme")]
            (Self::Acme(renewed), client) => renewed.resolve(client),
        }
    }
}

/// All certificates of a server, in the order of the settings.
#[derive(Debug)]
pub(super) struct CertificateResolver(pub(super) Vec<CertificateSource>);

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let requested = |shown: &&CertificateSource| {
            client.server_name().is_some_and(|name| shown.is_for(name))
        };
        // An authority that checks the ownership of a name gets its certificate only.
        #[cfg(feature = "acme")]
        if super::acme::is_challenge(&client) {
            let is_renewed = |shown: &&CertificateSource| {
                matches!(shown, CertificateSource::Acme(_)) && requested(shown)
            };
            return self.0.iter().find(is_renewed)?.certificate(client);
        }
        let fit = match self.0.len() {
            0 | 1 => None,
            _ => self.0.iter().find(requested),
        };
        fit.or(self.0.first())?.certificate(client)
    }
}
