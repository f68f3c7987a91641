//! The CAs that a client trusts, and the errors for servers that it does not trust.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use marmota_model::{Error, ErrorKind, Result};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, ClientConfig, RootCertStore};

/// Returns a configuration that trusts the CAs in a PEM file, or the system's.
pub(super) fn trusting(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>> {
    // The system has many certificates, so they are read once.
    static SYSTEM: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let (None, Some(known)) = (ca_file, SYSTEM.get()) {
        return Ok(Arc::clone(known));
    }
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(path) => {
            let refused = |error: &dyn std::fmt::Display| {
                let message = format!(
                    "the CA file {} cannot be used: {error}; use a PEM file with certificates",
                    path.display()
                );
                Error::new(ErrorKind::Invalid, message)
            };
            for certificate in CertificateDer::pem_file_iter(path).map_err(|it| refused(&it))? {
                let added = certificate.map_err(|it| refused(&it))?;
                roots.add(added).map_err(|it| refused(&it))?;
            }
            if roots.is_empty() {
                return Err(refused(&"the file has no certificate"));
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            for error in &found.errors {
                log::warn!("certificates of the system: {error}");
            }
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                let message = "this system has no CA certificates for TLS: install them (the \
                               package ca-certificates), or set `ca_file`";
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(ErrorKind::Bug, format!("TLS cannot begin: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    Ok(match ca_file {
        Some(_) => config,
        None => Arc::clone(SYSTEM.get_or_init(|| config)),
    })
}

/// Returns the error for a failed handshake, if TLS caused it.
#[cold]
pub(crate) fn fault(host: &str, error: &io::Error) -> Option<Error> {
    use rustls::Error::{InvalidCertificate, InvalidMessage};
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let why = match error {
        InvalidCertificate(fault) => certificate_fault(fault),
        InvalidMessage(_) => "the server does not support TLS on this port: use http:// or ws://, \
                              or the TLS port"
            .to_owned(),
        other => format!("TLS failed: {other}"),
    };
    let message = format!("the server at {host} cannot be trusted: {why}");
    Some(Error::new(ErrorKind::Protocol, message))
}

fn certificate_fault(fault: &CertificateError) -> String {
    match fault {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            let names = match fault {
                CertificateError::NotValidForNameContext { presented, .. } => presented.join(", "),
                _ => "others".to_owned(),
            };
            format!(
                "the certificate is for another name ({names}): use one of these names in the URL, \
                 or install a certificate for this name on the server"
            )
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate has expired: renew the certificate, or correct the clock of this \
             machine"
                .to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet: correct the clock of this machine".to_owned()
        }
        // Also for a CA of the same name with another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the certificate is not signed by an authority that this client trusts: name the file \
                                            with the certificate of the authority (`ca_file`, or \
                                            the variable SSL_CERT_FILE)"
                .to_owned()
        }
        other => format!("the certificate cannot be used: {other}"),
    }
}
