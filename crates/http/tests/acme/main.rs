//! Certificates that the server asks for by itself, of a real authority: Pebble, Let's Encrypt's own
//! for tests. `cargo xtask packages` installs it.
#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use marmota_http::{Acme, Request, Router, RunningServer, Server, Tls};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// How long a certificate may take: Pebble looks and waits as a real authority does.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The authority, which looks for challenges at one port.
struct Authority {
    folder: tempfile::TempDir,
    directory: String,
    management: String,
    _running: [Running; 2],
}

fn tool(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools").join(name);
    assert!(path.is_file(), "{} is missing: `cargo xtask packages` installs it", path.display());
    path
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn run(command: &mut Command, port: u16) -> Running {
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = Running(quiet.spawn().unwrap());
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(running.0.try_wait().unwrap().is_none(), "{command:?} has ended");
        assert!(begun.elapsed() < PATIENCE, "nobody listens on {port}");
        std::thread::sleep(Duration::from_millis(20));
    }
    running
}

impl Authority {
    /// Starts it, and a name server for which every name is this machine's.
    fn start(looks_at: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        fs::write(path("own.pem"), own.cert.pem()).unwrap();
        fs::write(path("own.key"), own.signing_key.serialize_pem()).unwrap();
        let [port, management, names, names_management] = [(); 4].map(|()| free_port());
        let settings = serde_json::json!({"pebble": {
            "listenAddress": format!("127.0.0.1:{port}"),
            "managementListenAddress": format!("127.0.0.1:{management}"),
            "certificate": path("own.pem"),
            "privateKey": path("own.key"),
            "httpPort": 1,
            "tlsPort": looks_at,
        }});
        fs::write(path("pebble.json"), settings.to_string()).unwrap();
        let names = format!("127.0.0.1:{names}");
        let mut resolver = Command::new(tool("pebble-challtestsrv"));
        resolver.args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""]);
        resolver.args(["-defaultIPv6", "", "-dns01", &names]);
        resolver.args(["-management", &format!("127.0.0.1:{names_management}")]);
        let resolver = run(&mut resolver, names_management);
        let mut pebble = Command::new(tool("pebble"));
        pebble.args(["-config", &path("pebble.json"), "-dnsserver", &names]);
        pebble.env("PEBBLE_VA_NOSLEEP", "1");
        let pebble = run(&mut pebble, port);
        Self {
            folder,
            directory: format!("https://127.0.0.1:{port}/dir"),
            management: format!("https://127.0.0.1:{management}"),
            _running: [pebble, resolver],
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn acme(&self, names: &[&str]) -> Acme {
        let acme = Acme::new(names.iter().copied()).contact("who@a.test");
        let acme = acme.directory(&self.directory).ca_file(self.path("own.pem"));
        acme.folder(self.path("kept"))
    }

    /// A client that trusts it.
    fn client(&self) -> Arc<ClientConfig> {
        let url = format!("{}/roots/0", self.management);
        let root = Command::new("curl").args(["--silent", "--insecure", &url]).output().unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&root.stdout).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
    }
}

/// A server at a port that is known before it starts.
fn serve(tls: Tls, port: u16) -> RunningServer {
    let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], port)).to_string()).unwrap();
    let router =
        Router::new().get("/", |request: Request| async move { request.host().to_owned() });
    server.listeners(1).tls(tls).start(router).unwrap()
}

/// What a client gets that asks by a name: the answer, and the certificate.
fn ask(port: u16, name: &'static str, client: &Arc<ClientConfig>) -> Option<(String, Vec<u8>)> {
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let asked = ServerName::try_from(name).unwrap();
    let session = ClientConnection::new(Arc::clone(client), asked).unwrap();
    let mut stream = StreamOwned::new(session, socket);
    let request = format!("GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let certificate = stream.conn.peer_certificates()?.first()?.to_vec();
    Some((answer.split_once("\r\n\r\n")?.1.to_owned(), certificate))
}

#[track_caller]
fn wait_for(port: u16, name: &'static str, client: &Arc<ClientConfig>) -> Vec<u8> {
    let begun = Instant::now();
    loop {
        if let Some((answer, certificate)) = ask(port, name, client) {
            assert_eq!(answer, name);
            return certificate;
        }
        assert!(begun.elapsed() < PATIENCE, "there is no certificate for {name}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_certificate_is_asked_for_kept_and_shown_beside_others() {
    let port = free_port();
    let authority = Authority::start(port);
    let client = authority.client();
    // One of files for another name, by somebody whom this client does not trust.
    let files = (authority.path("own.pem"), authority.path("own.key"));
    let tls =
        || Tls::acme(authority.acme(&["a.test", "b.test"])).add_certificate(&files.0, &files.1);
    let server = serve(tls(), port);
    let first = wait_for(port, "a.test", &client);
    assert_eq!(wait_for(port, "b.test", &client), first, "one for both");
    assert!(ask(port, "127.0.0.1", &client).is_none(), "nobody vouches for that one");
    server.shutdown().unwrap();
    // Keys are kept there.
    let kept = fs::metadata(authority.path("kept")).unwrap().permissions().mode();
    assert_eq!(kept & 0o777, 0o700);
    let server = serve(tls(), port);
    assert_eq!(wait_for(port, "a.test", &client), first, "a restart asks for no other");
    server.shutdown().unwrap();
}

#[test]
fn without_an_authority_the_server_serves_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let own = rcgen::generate_simple_self_signed(["own.test".to_owned()]).unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("own.pem"), own.cert.pem()).unwrap();
    fs::write(path("own.key"), own.signing_key.serialize_pem()).unwrap();
    let acme = Acme::new(["a.test"]).directory("https://127.0.0.1:1/dir").folder(path("kept"));
    let port = free_port();
    let server = serve(Tls::acme(acme).add_certificate(path("own.pem"), path("own.key")), port);
    let mut roots = RootCertStore::empty();
    roots.add(own.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider);
    let client = client.with_safe_default_protocol_versions().unwrap();
    let client = Arc::new(client.with_root_certificates(roots).with_no_client_auth());
    assert_eq!(ask(port, "own.test", &client).unwrap().0, "own.test");
    assert!(ask(port, "a.test", &client).is_none());
    server.shutdown().unwrap();
}

#[test]
fn what_no_certificate_is_given_for_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let start = |acme: Acme| {
        let tls = Tls::acme(acme.folder(folder.path().join("kept")));
        let server = Server::bind("127.0.0.1:0").unwrap().tls(tls);
        server.start(Router::new()).map(drop).unwrap_err().to_string()
    };
    for name in ["*.a.test", "localhost", "a.test:443", "127.0.0.1", ""] {
        let error = start(Acme::new([name]));
        assert!(error.contains(&format!("`{name}` is not a host name")), "{error}");
    }
    assert!(start(Acme::new(Vec::<String>::new())).contains("no host name to request"));
    let error = start(Acme::new(["a.test"]).directory("http://ca.test/dir"));
    assert!(error.contains("`http://ca.test/dir`"), "{error}");
    let error = start(Acme::new(["a.test"]).ca_file("/nowhere/ca.pem"));
    assert!(error.contains("/nowhere/ca.pem"), "{error}");
}
