//! The options of `serve` for TLS: certificates in files, a self-signed one, certificates of an authority.

use clap::Args;

/// The options for TLS. Without one of them, the server speaks plain HTTP.
#[derive(Args)]
#[command(next_help_heading = "TLS")]
pub(super) struct TlsOptions {
    /// TLS with a certificate for localhost that is made at the start: for development
    #[arg(long, value_name = "HOW", value_parser = ["self-signed"], conflicts_with = "tls_cert")]
    tls: Option<String>,
    /// TLS with this certificate (PEM), which is reloaded when it changes; repeat it with another
    /// --tls-key for each further certificate
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Vec<std::path::PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Vec<std::path::PathBuf>,
    /// Accept only clients with a certificate signed by an authority in this file (PEM)
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<std::path::PathBuf>,
    /// Accept clients without a certificate, too
    #[arg(long, requires = "tls_client_ca")]
    tls_client_ca_optional: bool,
    /// TLS with a certificate for these names from Let's Encrypt (whose terms you accept), renewed
    /// automatically; this server must be reachable at port 443 of the names
    #[cfg(feature = "acme")]
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "tls")]
    acme: Vec<String>,
    /// A mail address for the certificate authority
    #[cfg(feature = "acme")]
    #[arg(long, value_name = "ADDRESS", requires = "acme")]
    acme_contact: Vec<String>,
    /// Folder of the account and the certificate
    #[cfg(feature = "acme")]
    #[arg(long, value_name = "FOLDER", requires = "acme", default_value = "acme")]
    acme_folder: std::path::PathBuf,
    /// Directory URL of another certificate authority
    #[cfg(feature = "acme")]
    #[arg(long, value_name = "URL", requires = "acme")]
    acme_directory: Option<String>,
    /// Certificates (PEM) that are trusted for connections to that authority. Default: those of the
    /// system
    #[cfg(feature = "acme")]
    #[arg(long, value_name = "FILE", requires = "acme")]
    acme_ca_file: Option<std::path::PathBuf>,
    /// Another address that redirects HTTP to HTTPS
    #[arg(long, value_name = "ADDRESS")]
    pub(super) redirect: Option<String>,
}

impl TlsOptions {
    /// Returns the settings of TLS; `None` if no option requests it. Several certificates are chosen by
    /// the name that a client connects to (SNI).
    pub(super) fn tls(&self) -> Option<marmota_http::Tls> {
        let mut pairs = self.tls_cert.iter().zip(&self.tls_key);
        let mut tls = match self.of_authority() {
            Some(tls) => tls,
            None => match pairs.next() {
                Some((certificate, key)) => marmota_http::Tls::files(certificate, key),
                None => self.tls.as_ref().map(|_| marmota_http::Tls::self_signed())?,
            },
        };
        for (certificate, key) in pairs {
            tls = tls.add_certificate(certificate, key);
        }
        match &self.tls_client_ca {
            Some(ca_file) if self.tls_client_ca_optional => {
                Some(tls.client_ca_file_optional(ca_file))
            }
            Some(ca_file) => Some(tls.client_ca_file(ca_file)),
            None => Some(tls),
        }
    }

    /// Returns true if all clients have certificates.
    pub(super) const fn requires_certificates(&self) -> bool {
        self.tls_client_ca.is_some() && !self.tls_client_ca_optional
    }

    /// Returns TLS with a certificate of an authority, if `--acme` is given (RFC 8555).
    #[cfg(feature = "acme")]
    fn of_authority(&self) -> Option<marmota_http::Tls> {
        if self.acme.is_empty() {
            return None;
        }
        let mut acme = marmota_http::Acme::new(&self.acme).folder(&self.acme_folder);
        for contact in &self.acme_contact {
            acme = acme.contact(contact);
        }
        if let Some(directory) = &self.acme_directory {
            acme = acme.directory(directory);
        }
        if let Some(file) = &self.acme_ca_file {
            acme = acme.ca_file(file);
        }
        Some(marmota_http::Tls::acme(acme))
    }

    #[cfg(not(feature = "acme"))]
    #[allow(clippy::unused_self, reason = "it has certificates with the feature")]
    const fn of_authority(&self) -> Option<marmota_http::Tls> {
        None
    }
}
