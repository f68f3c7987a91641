//! Coming in: by TCP and by socket, with what proves who one is, and what is
//! said when one may not.

use marmota_model::{Error, ErrorKind};
use marmota_postgres::{Password, Postgres, PostgresOptions, TemporaryPostgres};

use crate::{label, open, server};

fn refused(url: &str) -> Error {
    Postgres::from_url(url).unwrap_err()
}

#[test]
fn a_unix_socket_needs_no_password_where_it_is_trusted() {
    server().make_database().unwrap();
    let store = open(&server().socket_url("postgres"));
    let key = store.insert(&label("by socket")).run().unwrap();
    assert_eq!(store.get::<crate::Tally>(key).run().unwrap().count, 0);
}

#[test]
fn a_wrong_password_is_refused_without_being_told() {
    let url = server().url("postgres").replace("ss%20w", "xyzzy");
    let error = refused(&url);
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    let words = format!("{error:?}");
    assert!(words.contains("marmota") && !words.contains("xyzzy"), "{words}");
    let mut options = PostgresOptions::parse(&server().url("postgres")).unwrap();
    options.password = None;
    let error = Postgres::open(options.clone()).unwrap_err();
    assert!(error.to_string().contains("PGPASSWORD"), "{error}");
    options.password = Some(Password::new("p:ss w@rd"));
    Postgres::open(options).unwrap();
}

#[test]
fn a_database_that_is_not_there_is_named() {
    let error = refused(&server().url("nowhere"));
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
    assert!(error.to_string().contains("nowhere"), "{error}");
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = refused(&format!("postgres://u:hush@127.0.0.1:{port}/d"));
    assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
    let words = error.to_string();
    assert!(words.contains(&port.to_string()) && !words.contains("hush"), "{words}");
    let error = refused("postgres://u@/d?host=/nowhere");
    assert!(error.to_string().contains("/nowhere"), "{error}");
}

#[test]
fn what_is_no_postgresql_is_refused() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            use std::io::Write as _;
            let _ = stream.unwrap().write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let error = refused(&format!("postgres://u@127.0.0.1:{port}/d?connect_timeout=2"));
    assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
}

#[test]
fn tls_that_the_server_does_not_speak_is_refused() {
    let url = server().url("postgres");
    let error = refused(&format!("{url}?sslmode=require"));
    assert!(error.to_string().contains("ssl"), "{error}");
    Postgres::from_url(&format!("{url}?sslmode=prefer")).unwrap();
}

/// Certificates by OpenSSL's program: an authority, and a server's for
/// `localhost`.
fn make_certificates(folder: &std::path::Path) -> bool {
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new("openssl");
        let output = command.args(arguments).current_dir(folder).output();
        output.is_ok_and(|output| output.status.success())
    };
    std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost\n").unwrap();
    run(&[
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=Root",
        "-keyout", "root.key", "-out", "root.crt",
    ]) && run(&[
        "req",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=localhost",
        "-keyout",
        "server.key",
        "-out",
        "server.csr",
    ]) && run(&[
        "x509",
        "-req",
        "-in",
        "server.csr",
        "-CA",
        "root.crt",
        "-CAkey",
        "root.key",
        "-days",
        "2",
        "-CAcreateserial",
        "-extfile",
        "names",
        "-out",
        "server.crt",
    ])
}

#[test]
fn tls_is_verified_as_far_as_is_asked() {
    let own = TemporaryPostgres::start(&["fsync=off"]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    assert!(make_certificates(folder.path()), "openssl is needed");
    for name in ["server.key", "server.crt"] {
        // The data folder's files are the server's user's; a copy into one that
        // is there keeps its owner and mode.
        let to = own.data().join(name);
        std::fs::copy(own.data().join("PG_VERSION"), &to).unwrap();
        std::fs::copy(folder.path().join(name), &to).unwrap();
        let like = std::fs::metadata(own.data().join("PG_VERSION")).unwrap();
        use std::os::unix::fs::MetadataExt as _;
        std::os::unix::fs::chown(&to, Some(like.uid()), Some(like.gid())).unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    own.pause();
    let settings = own.data().join("postgresql.auto.conf");
    std::fs::write(settings, "ssl = on\n").unwrap();
    own.resume().unwrap();
    let (root, url) = (folder.path().join("root.crt"), own.url("postgres"));
    let by_name = url.replace("127.0.0.1", "localhost");
    for (url, mode) in
        [(&url, "prefer"), (&url, "require"), (&by_name, "verify-full"), (&url, "verify-ca")]
    {
        let root =
            if mode.starts_with("verify") { root.display().to_string() } else { String::new() };
        let root = if root.is_empty() { root } else { format!("&sslrootcert={root}") };
        let store = open(&format!("{url}?sslmode={mode}{root}"));
        let many: Vec<_> = (0..2_000).map(|number| label(format!("{mode} {number}"))).collect();
        store.insert_many(&many).run().unwrap();
        assert_eq!(store.list::<crate::Tally>().run().unwrap().len() % 2_000, 0);
    }
    // The address is no name of the certificate: that asks for it, and no other mode.
    let error = refused(&format!("{url}?sslmode=verify-full&sslrootcert={}", root.display()));
    assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
    let words = error.to_string();
    assert!(words.contains("certificate") && words.contains("127.0.0.1"), "{words}");
    // Another root of the same name has signed nothing.
    let other = tempfile::tempdir().unwrap();
    assert!(make_certificates(other.path()));
    let other = other.path().join("root.crt");
    for mode in ["verify-ca", "verify-full", "require"] {
        // A root that is named is asked, as libpq does, though nothing more were wanted.
        let url = format!("{by_name}?sslmode={mode}&sslrootcert={}", other.display());
        let error = refused(&url);
        assert_eq!(error.kind(), ErrorKind::Refused, "{mode}: {error:?}");
        assert!(error.to_string().contains("certificate"), "{mode}: {error}");
    }
    let error = refused(&format!("{by_name}?sslmode=verify-ca&sslrootcert=/nowhere.crt"));
    assert!(error.to_string().contains("/nowhere.crt"), "{error}");
}

#[test]
fn a_server_that_takes_no_more_connections_is_named() {
    let url = server().make_database().unwrap();
    let engine = Postgres::from_url(&url).unwrap();
    engine.execute("CREATE ROLE few LOGIN PASSWORD 'few' CONNECTION LIMIT 1").unwrap();
    let mut options = PostgresOptions::parse(&url).unwrap();
    options.user = "few".to_owned();
    options.password = Some(Password::new("few"));
    let first = Postgres::open(options.clone()).unwrap();
    let error = Postgres::open(options.clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
    assert!(error.to_string().contains("too many connections"), "{error}");
    drop(first);
    // The server lets go of the first a moment later.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while Postgres::open(options.clone()).is_err() {
        assert!(std::time::Instant::now() < until);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    options.password = Some(Password::new("wrong"));
    let error = Postgres::open(options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
}

#[test]
fn a_backup_names_the_program_that_makes_it() {
    let store = open(&server().make_database().unwrap());
    let error = store.backup_to(std::env::temp_dir().join("no.backup")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    assert!(error.to_string().contains("pg_dump"), "{error}");
}
