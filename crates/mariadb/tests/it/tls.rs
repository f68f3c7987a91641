//! TLS, with the parameters of the URL that decide which certificates are accepted.

use std::path::Path;

use marmota_mariadb::{Mariadb, TemporaryMariadb};
use marmota_model::{ErrorKind, Result};
use marmota_store::Store;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::{Tally, server};

/// A certificate authority, and its certificate in PEM.
fn authority() -> (Issuer<'static, KeyPair>, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    (Issuer::new(params, key), pem)
}

/// Returns the cipher of a connection.
fn cipher(url: &str) -> Result<String> {
    let store = Store::builder(Mariadb::from_url(url)?).model::<Tally>().open()?;
    let id = store.insert(&Tally { count: 7, ..Tally::default() }).run()?;
    assert_eq!(store.get::<Tally>(id).run()?.count, 7);
    let sql = "SELECT variable_value FROM information_schema.session_status \
               WHERE variable_name='Ssl_cipher'";
    Ok(store.sql(sql).value::<String>().run()?.unwrap_or_default())
}

fn written(folder: &Path, name: &str, pem: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, pem).unwrap();
    // A space in a URL.
    path.display().to_string().replace(' ', "%20")
}

#[test]
fn a_certificate_is_checked_as_the_url_says() {
    let (ca, ca_pem) = authority();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &ca).unwrap();
    let server =
        TemporaryMariadb::start_with_tls(&certificate.pem(), &key.serialize_pem()).unwrap();
    let url = server.make_database().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let own = written(folder.path(), "own ca.pem", &ca_pem);
    let other = written(folder.path(), "other.pem", &authority().1);
    let by_name = url.replacen("127.0.0.1", "localhost", 1);

    assert_eq!(cipher(&url).unwrap(), "", "TLS is not the default");
    for accepted in [
        format!("{url}?require_ssl=true&ssl_ca={own}"),
        format!("{url}?require_ssl=true&verify_ca=false"),
        format!("{by_name}?require_ssl=true&ssl_ca={own}&verify_identity=false"),
    ] {
        assert_ne!(cipher(&accepted).unwrap(), "", "{accepted}");
    }
    for refused in [
        format!("{url}?require_ssl=true"),
        format!("{url}?require_ssl=true&ssl_ca={other}"),
        format!("{url}?require_ssl=true&ssl_ca={other}&verify_identity=false"),
        format!("{by_name}?require_ssl=true&ssl_ca={own}"),
    ] {
        let error = cipher(&refused).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{refused}: {error}");
        assert!(error.message().contains("certificate"), "{error}");
        assert!(error.message().contains("`ssl_ca`"), "{error}");
        assert!(!error.message().contains("w@rd"), "{error}");
    }
}

#[test]
fn a_server_without_tls_is_refused_if_tls_is_required() {
    let url = server().make_database().unwrap();
    let error = cipher(&format!("{url}?require_ssl=true&verify_ca=false")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.message().contains("`require_ssl`"), "{error}");
}
