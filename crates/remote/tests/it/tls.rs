//! Servers that speak TLS, and those that are not to be trusted.

use std::path::Path;

use marmota_http::{RunningServer, Server, Tls};
use marmota_model::{Error, ErrorKind};
use marmota_remote::{Remote, Service};

use crate::authority::Authority;
use crate::{client, person, served};

fn serve(tls: Option<Tls>) -> RunningServer {
    let server = Server::bind("127.0.0.1:0").unwrap().listeners(1);
    let server = match tls {
        Some(tls) => server.tls(tls),
        None => server,
    };
    server.start(Service::new(&served()).router()).unwrap()
}

/// What comes of it by both schemes, which has to be the same.
fn refused(server: &RunningServer, ca_file: Option<&Path>) -> Error {
    let [one, other] = ["https", "wss"].map(|scheme| {
        let url = format!("{scheme}://{}/api", server.local_addr());
        let remote = Remote::from_url(&url).unwrap();
        let remote = match ca_file {
            Some(file) => remote.ca_file(file),
            None => remote,
        };
        client(remote).unwrap_err()
    });
    assert_eq!((one.kind(), one.message()), (other.kind(), other.message()));
    one
}

#[test]
fn a_server_that_is_not_to_be_trusted_is_refused_with_the_way_out() {
    let authority = Authority::new();
    let file = authority.file();
    let stranger = Authority::new();
    let cases = [
        ("another name", authority.tls("a.test", 2200), Some(&*file), "is for another name"),
        (
            "expired",
            authority.tls("127.0.0.1", 2020),
            Some(&file),
            "has expired: renew the certificate",
        ),
        (
            "stranger",
            stranger.tls("127.0.0.1", 2200),
            Some(&file),
            "name the file with the certificate of the authority",
        ),
        ("no system's", stranger.tls("127.0.0.1", 2200), None, "authorit"),
    ];
    for (case, tls, ca_file, words) in cases {
        let error = refused(&serve(Some(tls)), ca_file);
        assert!(error.message().contains(words), "{case}: {error}");
        assert!(
            matches!(error.kind(), ErrorKind::Protocol | ErrorKind::Invalid),
            "{case}: {error:?}"
        );
    }
    let error = refused(&serve(None), Some(&file));
    assert!(
        error.message().contains("the server does not support TLS on this port: use http://"),
        "{error}"
    );
    let error = refused(&serve(None), Some(Path::new("/nowhere/ca.pem")));
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("/nowhere/ca.pem"), "{error}");
}

#[test]
fn a_certificate_that_was_made_for_itself_is_believed_by_its_file() {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [pem, own] = ["a.pem", "a.key"].map(|name| folder.path().join(name));
    std::fs::write(&pem, certificate.pem()).unwrap();
    std::fs::write(&own, key.serialize_pem()).unwrap();
    let server = serve(Some(Tls::files(&pem, own)));
    let url = format!("https://localhost:{}/api", server.local_addr().port());
    let store = client(Remote::from_url(&url).unwrap().ca_file(pem)).unwrap();
    assert_eq!(store.insert(&person("Emmy")).run().unwrap(), 1);
}
