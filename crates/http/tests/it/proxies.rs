//! Behind a proxy: whom it speaks for, by headers and by the PROXY protocol; a real nginx before a
//! port, a Unix socket and TLS.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[cfg(feature = "tls")]
use marmota_http::Tls;
use marmota_http::{ForwardedHeader, Request, Response, Router, Server};

use super::client::{Client, ask, backend};

fn router() -> Router {
    Router::new()
        .get("/who", |request: Request| async move {
            let client = request.client_ip().map_or("-".to_owned(), |ip| ip.to_string());
            format!("{client} {} {} {}", request.scheme(), request.host(), request.peer())
        })
        .get("/large", |_| async { Response::text("x".repeat(1 << 20)) })
        .post("/length", |request: Request| async move { request.body().len().to_string() })
}

fn bind() -> Server {
    Server::bind("127.0.0.1:0").unwrap().backend(backend()).listeners(1)
}

#[test]
fn what_is_passed_on_is_seen_by_its_headers_or_its_peer() {
    let router = || {
        Router::new().get("/", |request: Request| async move { request.is_forwarded().to_string() })
    };
    let deaf = bind().start(router()).unwrap();
    let trusting = bind().trusted_proxies(["127.0.0.0/8"]).start(router()).unwrap();
    let forwarded = |address: SocketAddr, header: &str| {
        ask(address, &format!("GET / HTTP/1.1\r\nHost: a\r\n{header}\r\n")).text() == "true"
    };
    for (header, expected) in [
        ("", false),
        ("X-Forward: a\r\nX-Forwarded: a\r\n", false),
        ("forwarded: for=127.0.0.1\r\n", true),
        ("X-Forwarded-For: 127.0.0.1\r\n", true),
        ("x-forwarded-port: 1\r\n", true),
        ("X-Real-IP: \r\n", true),
        ("Via: 1.1 nginx\r\n", true),
    ] {
        assert_eq!(forwarded(deaf.local_addr(), header), expected, "{header}");
        assert!(forwarded(trusting.local_addr(), header), "{header}");
    }
}

#[test]
fn only_trusted_peers_speak_for_others() {
    let deaf = bind().start(router()).unwrap();
    let trusting = bind().trusted_proxies(["127.0.0.0/8"]).start(router()).unwrap();
    let standard = bind().trusted_proxies(["127.0.0.0/8"]);
    let standard = standard.forwarded_header(ForwardedHeader::Forwarded).start(router()).unwrap();
    let who = |address: SocketAddr, headers: &str| {
        let answer = ask(address, &format!("GET /who HTTP/1.1\r\nHost: a\r\n{headers}\r\n"));
        answer.text().rsplit_once(' ').unwrap().0.to_owned()
    };
    for (headers, expected) in [
        ("", "127.0.0.1 http a"),
        ("X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\n", "192.0.2.7 https a"),
        ("X-Forwarded-For: 6.6.6.6, 192.0.2.7\r\nX-Forwarded-Host: b\r\n", "192.0.2.7 http b"),
        (
            "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 192.0.2.7, 127.0.0.9\r\n",
            "192.0.2.7 http a",
        ),
        ("X-Forwarded-For: nonsense\r\n", "127.0.0.1 http a"),
        // What a proxy that sets X-Forwarded-For passes on of its client.
        ("Forwarded: for=6.6.6.6;host=c\r\nX-Forwarded-For: 192.0.2.7\r\n", "192.0.2.7 http a"),
        ("Forwarded: for=6.6.6.6;proto=https;host=c\r\n", "127.0.0.1 http a"),
    ] {
        assert_eq!(who(trusting.local_addr(), headers), expected, "{headers}");
        assert_eq!(who(deaf.local_addr(), headers), "127.0.0.1 http a", "{headers}");
    }
    for (headers, expected) in [
        (
            "Forwarded: for=6.6.6.6, for=\"[2001:db8::1]:80\";proto=https;host=c\r\n",
            "2001:db8::1 https c",
        ),
        ("Forwarded: for=192.0.2.7\r\nX-Forwarded-For: 6.6.6.6\r\n", "192.0.2.7 http a"),
        ("X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Host: b\r\n", "127.0.0.1 http a"),
    ] {
        assert_eq!(who(standard.local_addr(), headers), expected, "{headers}");
    }
    let error = bind().trusted_proxies(["nobody"]).start(router()).unwrap_err().to_string();
    assert!(error.contains("nobody") && error.contains("10.0.0.0/8"), "{error}");
}

#[test]
fn a_target_in_absolute_form_names_the_host() {
    let server = bind().start(router()).unwrap();
    for (target, host) in [
        ("http://b.test/who", "b.test"),
        ("http://b.test:80/who?c", "b.test:80"),
        ("https://[::1]:80/who", "[::1]:80"),
        ("/who", "a"),
    ] {
        let text = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer = ask(server.local_addr(), &text);
        assert_eq!(answer.text().split(' ').nth(2), Some(host), "{target}: {answer:?}");
    }
}

#[test]
fn the_proxy_protocol_names_the_peer() {
    let server = bind().proxy_protocol(["127.0.0.1"]).start(router()).unwrap();
    let request = "GET /who HTTP/1.1\r\nHost: a\r\n\r\n";
    let v1 = b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 80\r\n".to_vec();
    let mut v2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    v2.extend_from_slice(&[192, 0, 2, 7, 10, 0, 0, 1, 0x12, 0x67, 0, 80]);
    for header in [v1, v2] {
        for cut in [0, 1, 14, header.len()] {
            let mut client = Client::plain(server.local_addr());
            client.send(&header[..cut]);
            std::thread::sleep(Duration::from_millis(20));
            client.send([&header[cut..], request.as_bytes(), request.as_bytes()].concat());
            for _ in 0..2 {
                assert_eq!(client.answer().unwrap().text(), "192.0.2.7 http a 192.0.2.7:4711");
            }
        }
    }
    assert!(Client::plain(server.local_addr()).send(request).is_closed(), "it must be there");
    let stranger = bind().proxy_protocol(["10.0.0.0/8"]).start(router()).unwrap();
    let answer = ask(stranger.local_addr(), request);
    assert!(answer.text().starts_with("127.0.0.1 http a 127.0.0.1:"), "{answer:?}");
}

/// nginx in a folder of its own; ended with the test.
struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn nginx(folder: &Path, servers: &str) -> Nginx {
    let at = folder.display();
    let configuration = format!(
        "daemon off; master_process off; pid {at}/nginx.pid; error_log {at}/error.log;\n\
         events {{ worker_connections 64; }}\n\
         http {{\n access_log off;\n client_body_temp_path {at}/a; proxy_temp_path {at}/b;\n\
         fastcgi_temp_path {at}/c; uwsgi_temp_path {at}/d; scgi_temp_path {at}/e;\n\
         proxy_http_version 1.1; client_max_body_size 8m;\n\
         proxy_set_header Connection \"\"; proxy_set_header X-Forwarded-Proto https;\n\
         proxy_set_header X-Forwarded-Host $host;\n\
         proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n{servers}\n}}\n"
    );
    fs::write(folder.join("nginx.conf"), configuration).unwrap();
    let binary = if Path::new("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" };
    let nginx = Command::new(binary)
        .args(["-p", &at.to_string(), "-c", &format!("{at}/nginx.conf")])
        .stderr(Stdio::null())
        .spawn()
        .expect("nginx is installed (apt install nginx-light; `cargo xtask test` does)");
    Nginx(nginx)
}

#[test]
fn nginx_stands_before_a_port_a_socket_and_tls() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("service.sock");
    let server = bind().also_bind(format!("unix:{}", socket.display())).unwrap();
    let server = server.trusted_proxies(["127.0.0.1", "unix"]).start(router()).unwrap();
    // Only the socket's other end is trusted here.
    let strict = folder.path().join("strict.sock");
    let strict_server = Server::bind(format!("unix:{}", strict.display())).unwrap();
    let strict_server =
        strict_server.backend(backend()).trusted_proxies(["unix"]).start(router()).unwrap();
    let tls = bind().trusted_proxies(["127.0.0.1"]);
    #[cfg(feature = "tls")]
    let tls = tls.tls(Tls::self_signed());
    let scheme = if cfg!(feature = "tls") { "https" } else { "http" };
    let tls = tls.start(router()).unwrap();
    let front = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let servers = format!(
        "upstream tcp {{ server {}; keepalive 4; }}\n\
         upstream socket {{ server unix:{}; keepalive 4; }}\n\
         server {{ listen {front};\n\
         location /tcp/ {{ proxy_pass http://tcp/; }}\n\
         location /socket/ {{ proxy_pass http://socket/; }}\n\
         location /strict/ {{ proxy_pass http://unix:{}:/; }}\n\
         location /tls/ {{ proxy_pass {scheme}://{}/; }} }}",
        server.local_addr(),
        socket.display(),
        strict.display(),
        tls.local_addr(),
    );
    let _nginx = nginx(folder.path(), &servers);
    let begun = Instant::now();
    while std::net::TcpStream::connect(front).is_err() {
        let log = fs::read_to_string(folder.path().join("error.log")).unwrap_or_default();
        assert!(begun.elapsed() < Duration::from_secs(20), "nginx does not start: {log}");
        std::thread::sleep(Duration::from_millis(20));
    }
    for way in ["tcp", "socket", "strict", "tls"] {
        let spoken_for = if way == "strict" { "127.0.0.1" } else { "203.0.113.9" };
        let peer = if way == "tcp" || way == "tls" { "127.0.0.1:" } else { "unix:" };
        let mut client = Client::plain(front);
        for _ in 0..3 {
            let request = format!(
                "GET /{way}/who HTTP/1.1\r\nHost: x.test\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n"
            );
            let answer = client.send(request).answer().unwrap();
            let expected = format!("{spoken_for} https x.test {peer}");
            assert!(answer.text().starts_with(&expected), "{way}: {answer:?}");
        }
        let large = format!("GET /{way}/large HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.send(large).answer().unwrap().body.len(), 1 << 20, "{way}");
        let length = 1_000_000;
        let head =
            format!("POST /{way}/length HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        let answer = client.send(head).send(vec![b'x'; length]).answer().unwrap();
        assert_eq!(answer.text(), "1000000", "{way}");
    }
    drop(strict_server);
}
