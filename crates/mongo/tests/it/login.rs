//! Servers that ask who comes, and that speak TLS alone.

use marmota::prelude::*;
use marmota_mongo::TemporaryMongo;

use crate::{Office, open};

#[test]
fn a_wrong_login_by_scram_is_refused_and_told_to_nobody() {
    let server = TemporaryMongo::start_with(&["-user", "nora", "-password", "a b/c"]).unwrap();
    let url = |login: &str| {
        let options = "authSource=admin&authMechanism=SCRAM-SHA-256&serverSelectionTimeoutMS=2000";
        format!("mongodb://{login}{}/doors?{options}", server.address())
    };
    for login in ["nora:secret@", "nobody:a%20b%2Fc@"] {
        let Err(error) = marmota::open(&url(login)) else { panic!("{login} was let in") };
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        let words = error.to_string();
        assert!(words.contains("Authentication failed"), "{words}");
        assert!(!words.contains("secret") && !words.contains("a b/c"), "{words}");
    }
    let nobody = format!("mongodb://{}/doors", server.address());
    let opened = marmota::open(&nobody).and_then(|store| store.model::<Office>().open());
    let Err(error) = opened else { panic!("nobody was let in") };
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

#[test]
fn tls_is_spoken_with_those_whom_the_certificate_names() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let server = TemporaryMongo::start_with(&["-cert", cert, "-key", key]).unwrap();
    let url = |options: &str| {
        format!("mongodb://{}/safe?serverSelectionTimeoutMS=1000{options}", server.address())
    };
    let store = open(&url(&format!("&tls=true&tlsCAFile={}", cert.replace('/', "%2F"))));
    store.insert(&Office::new("1", "Nord")).run().unwrap();
    assert_eq!(store.get::<Office>("1").run().unwrap().name, "Nord");
    store.close().unwrap();
    for options in ["&tls=true", ""] {
        let Err(error) = marmota::open(&url(options)) else { panic!("`{options}` was let in") };
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    }
}
