//! Somebody who vouches for servers.

use std::path::PathBuf;

use marmota_http::Tls;

/// An authority with a folder for its certificate (`ca.pem`) and those it gives.
#[derive(Debug)]
pub(crate) struct Authority {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    folder: tempfile::TempDir,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Self { issuer: rcgen::Issuer::new(params, key), folder }
    }

    /// Its own certificate's file.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// The TLS of a server with this name or address, whose certificate ends in that year.
    pub(crate) fn tls(&self, name: &str, last_year: i32) -> Tls {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(last_year, 12, 31);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let [pem, own] =
            ["pem", "key"].map(|kind| self.folder.path().join(format!("{name}.{kind}")));
        std::fs::write(&pem, certificate.pem()).unwrap();
        std::fs::write(&own, key.serialize_pem()).unwrap();
        Tls::files(pem, own)
    }
}
