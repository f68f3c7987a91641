//! TLS: certificates and whom they are for, clients that must show one, resumption, clients that
//! speak something else, and hostile ones.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use marmota_http::{Endpoint, Limits, Method, Request, Router, RunningServer, Server, Tls};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};

use super::client::{Client, backend, bind, get};

/// Somebody who vouches for certificates, and a folder for their files.
struct Authority {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    certificate: CertificateDer<'static>,
    folder: tempfile::TempDir,
}

impl Authority {
    fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        let der = certificate.der().clone();
        Self { issuer: rcgen::Issuer::new(params, key), certificate: der, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes `<file>.pem` and `<file>.key` for these names; gives certificate and key.
    fn issue(
        &self,
        file: &str,
        names: &[&str],
    ) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(names).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(self.path(&format!("{file}.pem")), certificate.pem()).unwrap();
        fs::write(self.path(&format!("{file}.key")), key.serialize_pem()).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        (certificate.der().clone(), key.into())
    }

    fn files(&self, name: &str) -> Tls {
        Tls::files(self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")))
    }

    fn client(&self) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
        believing(self.certificate.clone())
    }
}

/// A client that believes whom this one vouches for.
fn believing(
    certificate: CertificateDer<'static>,
) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots)
}

fn router() -> Router {
    let size = |request: Request| async move { request.body().len().to_string() };
    Router::new()
        .get("/", |request: Request| async move {
            assert!(request.is_encrypted());
            format!("{} {}", request.scheme(), request.host())
        })
        .get("/who", |request: Request| async move {
            format!("{:?}", request.client_certificate().map(<[u8]>::len))
        })
        .on(Method::Post, "/size", Endpoint::future(size).body_bytes_max(8 << 20))
}

fn serve(tls: Tls) -> RunningServer {
    bind().listeners(1).tls(tls).start(router()).unwrap()
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

fn open(address: SocketAddr, name: &'static str, config: &Arc<ClientConfig>) -> Stream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let name = ServerName::try_from(name).unwrap();
    StreamOwned::new(ClientConnection::new(Arc::clone(config), name).unwrap(), socket)
}

/// Asks once and reads until the end, which must have been said.
fn ask(stream: &mut Stream, path: &str) -> std::io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a.test:1\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

#[test]
fn each_name_has_its_certificate_and_files_are_read_again() {
    let authority = Authority::new();
    let (first, _) = authority.issue("a", &["a.test", "*.a.test"]);
    let (second, _) = authority.issue("b", &["b.test"]);
    let tls =
        authority.files("a").add_certificate(authority.path("b.pem"), authority.path("b.key"));
    let server = serve(tls);
    let config = Arc::new(authority.client().with_no_client_auth());
    let shown = |name| {
        let mut stream = open(server.local_addr(), name, &config);
        let answer = ask(&mut stream, "/").ok()?;
        assert_eq!(answer, "https a.test:1");
        Some(stream.conn.peer_certificates().unwrap()[0].clone())
    };
    assert_eq!(shown("a.test"), Some(first.clone()));
    assert_eq!(shown("x.a.test"), Some(first));
    assert_eq!(shown("b.test"), Some(second.clone()));
    assert_eq!(shown("c.test"), None, "the client refuses the first, which is not for it");

    // A key that is not the certificate's is not taken.
    let key = fs::read(authority.path("b.key")).unwrap();
    fs::write(authority.path("b.key"), fs::read(authority.path("a.key")).unwrap()).unwrap();
    std::thread::sleep(Duration::from_millis(1_100));
    assert_eq!(shown("b.test"), Some(second.clone()));
    fs::write(authority.path("b.key"), key).unwrap();
    let (third, _) = authority.issue("b", &["b.test"]);
    let soon = |expected: CertificateDer<'static>| {
        let begun = std::time::Instant::now();
        while shown("b.test").as_ref() != Some(&expected) {
            assert!(begun.elapsed() < Duration::from_secs(60), "what has changed is not shown");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    soon(third.clone());

    // A pipe, whose reader would wait for a writer: no thread of the server is kept waiting.
    let named = authority.path("b.pem");
    fs::remove_file(&named).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&named).status().unwrap().success());
    std::thread::sleep(Duration::from_millis(1_100));
    for _ in 0..20 {
        assert!(shown("b.test") == Some(third.clone()));
    }
    fs::remove_file(&named).unwrap();
    let (fourth, _) = authority.issue("b", &["b.test"]);
    assert!(server.reload());
    soon(fourth);
    server.shutdown().unwrap();
}

#[test]
fn clients_come_back_without_a_handshake_in_full() {
    let authority = Authority::new();
    authority.issue("a", &["a.test"]);
    let server = serve(authority.files("a"));
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let config = builder.with_protocol_versions(&[version]).unwrap();
        let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
        let kinds = [(); 2].map(|()| {
            let mut stream = open(server.local_addr(), "a.test", &config);
            ask(&mut stream, "/").unwrap();
            stream.conn.handshake_kind().unwrap()
        });
        assert_eq!(kinds, [HandshakeKind::Full, HandshakeKind::Resumed], "{version:?}");
    }
}

#[test]
fn clients_show_certificates_where_they_must() {
    let authority = Authority::new();
    authority.issue("a", &["a.test"]);
    let (certificate, key) = authority.issue("client", &["client.test"]);
    let length = certificate.len();
    let plain = Arc::new(authority.client().with_no_client_auth());
    let known = authority.client().with_client_auth_cert(vec![certificate], key).unwrap();
    let stranger = Authority::new();
    let (other, other_key) = stranger.issue("client", &["client.test"]);
    let unknown = authority.client().with_client_auth_cert(vec![other], other_key).unwrap();
    let (known, unknown) = (Arc::new(known), Arc::new(unknown));

    let required = serve(authority.files("a").client_ca_file(authority.path("ca.pem")));
    let who = |server: &RunningServer, config| {
        ask(&mut open(server.local_addr(), "a.test", config), "/who").ok()
    };
    assert_eq!(who(&required, &known), Some(format!("Some({length})")));
    assert_eq!(who(&required, &known), Some(format!("Some({length})")), "resumed too");
    assert_eq!(who(&required, &plain), None);
    assert_eq!(who(&required, &unknown), None);

    let optional = authority.files("a").client_ca_file_optional(authority.path("ca.pem"));
    let optional = serve(optional);
    assert_eq!(who(&optional, &plain), Some("None".to_owned()));
    assert_eq!(who(&optional, &unknown), None);
}

#[test]
fn plain_http_is_told_and_sent_where_it_belongs() {
    let server = bind().redirect("127.0.0.1:0").unwrap().tls(Tls::self_signed()).listeners(1);
    assert!(server.url().starts_with("https://127.0.0.1:"));
    let server = server.start(router()).unwrap();
    let plain = TcpStream::connect(server.local_addr()).unwrap();
    plain.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    (&plain).write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut answer = String::new();
    (&plain).read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("speaks TLS") && answer.contains("Connection: close"), "{answer}");

    let redirect = server.addresses()[1].net().unwrap();
    let mut client = Client::plain(redirect);
    let answer = client.send("GET /a?b=1 HTTP/1.1\r\nHost: x.test:80\r\n\r\n").answer().unwrap();
    let location = format!("https://x.test:{}/a?b=1", server.local_addr().port());
    assert_eq!((answer.status, answer.header("location")), (308, Some(&*location)));
    assert!(client.is_closed());
    let answer = Client::plain(redirect).send("GET / HTTP/1.0\r\n\r\n").answer().unwrap();
    assert_eq!(answer.status, 400);
}

#[test]
fn a_unix_socket_stays_plain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    let server = bind().also_bind(format!("unix:{}", path.display())).unwrap();
    let router = Router::new().get("/", |request: Request| async move {
        assert!(!request.is_encrypted());
        "plain"
    });
    let server = server.tls(Tls::self_signed()).start(router).unwrap();
    let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("plain"), "{answer}");
    drop(server);
}

#[test]
fn bytes_that_come_one_by_one_are_understood() {
    let authority = Authority::new();
    authority.issue("a", &["a.test"]);
    let server = serve(authority.files("a"));
    let config = Arc::new(authority.client().with_no_client_auth());
    let name = ServerName::try_from("a.test").unwrap();
    let mut tls = ClientConnection::new(config, name).unwrap();
    let mut socket = TcpStream::connect(server.local_addr()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.set_nodelay(true).unwrap();
    let body = vec![b'x'; 40_000];
    tls.writer()
        .write_all(b"POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: 40000\r\n\r\n")
        .unwrap();
    tls.writer().write_all(&body).unwrap();
    let mut plain = Vec::new();
    while !plain.ends_with(b"40000") {
        let mut bytes = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut bytes).unwrap();
        }
        let (slow, rest) = bytes.split_at(bytes.len().min(600));
        for byte in slow.chunks(1) {
            socket.write_all(byte).unwrap();
        }
        for piece in rest.chunks(1_000) {
            socket.write_all(piece).unwrap();
        }
        assert!(tls.read_tls(&mut socket).unwrap() > 0);
        tls.process_new_packets().unwrap();
        let _ = tls.reader().read_to_end(&mut plain);
    }
}

#[test]
fn what_is_no_handshake_is_ended_and_slow_ones_too() {
    let limits = Limits { handshake_timeout_ms: 300, ..Limits::default() };
    let server =
        bind().listeners(1).limits(limits).tls(Tls::self_signed()).start(router()).unwrap();
    let open = |bytes: &[u8]| {
        let mut socket = TcpStream::connect(server.local_addr()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket.write_all(bytes).unwrap();
        socket
    };
    let closed = |mut socket: TcpStream| {
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
        rest
    };
    // An alert, then the end: no record at all, a record that is too long, one of another kind,
    // a hello that is none.
    for bytes in [
        &b"\0\0\0\0\0\0"[..],
        b"\x16\x03\x01\xff\xff",
        b"\x17\x03\x03\0\x05hello",
        b"\x16\x03\x01\0\x04\x01\0\0\0",
        b"\x16\x03\x01\0\x04\x02\0\0\0",
    ] {
        let rest = closed(open(bytes));
        assert!(rest.is_empty() || rest[0] == 0x15, "{rest:x?}");
    }
    // Halves of handshakes, at number, beside one that is whole.
    let begun = Instant::now();
    let halves: Vec<TcpStream> =
        (0..500).map(|at| open(&b"\x16\x03\x01\x02\0\x01\0\x01\xfc"[..at % 10])).collect();
    let mut client = Client::new_tls(server.local_addr());
    let answer = client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").answer().unwrap();
    assert_eq!(answer.text(), "https a");
    for half in halves {
        assert_eq!(closed(half), b"");
    }
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(answer.status, 200);
}

#[test]
fn a_certificate_that_is_made_is_written_for_those_who_are_to_believe_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made.pem");
    let server = serve(Tls::self_signed().certificate_file(&file));
    let certificate = CertificateDer::from_pem_file(&file).unwrap();
    let client = Arc::new(believing(certificate.clone()).with_no_client_auth());
    for name in ["localhost", "127.0.0.1"] {
        let answer = ask(&mut open(server.local_addr(), name, &client), "/").unwrap();
        assert_eq!(answer, "https a.test:1");
    }
    let error = ask(&mut open(server.local_addr(), "a.test", &client), "/").unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    // Another server's is another.
    let other = serve(Tls::self_signed());
    assert!(ask(&mut open(other.local_addr(), "localhost", &client), "/").is_err());
}

#[test]
fn what_cannot_be_used_is_named_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("empty.pem"), "").unwrap();
    let authority = Authority::new();
    authority.issue("a", &["a.test"]);
    authority.issue("b", &["b.test"]);
    for (tls, word) in [
        (Tls::files(path("none.pem"), path("none.key")), "none.pem"),
        (Tls::files(path("empty.pem"), path("none.key")), "empty.pem"),
        (Tls::files(path(""), path("none.key")), "not a regular file"),
        (Tls::files(authority.path("a.pem"), path("empty.pem")), "empty.pem"),
        (Tls::files(authority.path("a.pem"), authority.path("b.key")), "b.key"),
        (authority.files("a").client_ca_file(path("none.pem")), "none.pem"),
        (authority.files("a").client_ca_file(path("empty.pem")), "empty.pem"),
        (Tls::self_signed_for(["ä"]), "ä"),
        (Tls::self_signed().certificate_file(path("no/made.pem")), "no/made.pem"),
    ] {
        let error = bind().tls(tls).start(Router::new()).unwrap_err().to_string();
        assert!(error.contains("TLS") && error.contains(word), "{error}");
    }
}

#[test]
fn the_server_is_there_for_many() {
    let server = Server::bind("127.0.0.1:0").unwrap().backend(backend()).tls(Tls::self_signed());
    let server = server.start(router()).unwrap();
    let address = server.local_addr();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                for _ in 0..20 {
                    let mut client = Client::new_tls(address);
                    for _ in 0..5 {
                        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(10));
                        for _ in 0..10 {
                            assert_eq!(client.answer().unwrap().text(), "https a");
                        }
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    server.shutdown().unwrap();
    assert!(std::panic::catch_unwind(|| get(address, "/")).is_err());
}
