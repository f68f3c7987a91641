//! The servers of the web suite: their requests, and how they are started.

use crate::http::roster::{Role, ServerSpec, Source};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The sizes of the requested files in bytes.
pub(super) const FILES: [(&str, usize); 4] =
    [("1k", 1 << 10), ("16k", 16 << 10), ("64k", 64 << 10), ("1m", 1 << 20)];

/// nginx reads its settings from a file, which is written at the start, when the port is known.
const START_NGINX: &str = "printf %s \"$1\" > nginx.conf && \
     exec nginx -p \"$PWD/\" -e stderr -c \"$PWD/nginx.conf\"";

/// The files to serve, and a certificate.
pub(super) struct Fixtures {
    folder: tempfile::TempDir,
}

impl Fixtures {
    pub(super) fn new() -> Result<Fixtures> {
        let folder = tempfile::tempdir().context("making a folder for files")?;
        std::fs::create_dir(folder.path().join("files"))?;
        let fixtures = Fixtures { folder };
        for (name, _) in FILES {
            std::fs::write(fixtures.path("files").join(name), content(name))?;
        }
        // The same kind of key as rcgen makes, so that a signature costs the same on all servers.
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
            .args(["-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", "key.pem"])
            .args(["-out", "certificate.pem"])
            .current_dir(fixtures.folder.path())
            .stderr(Stdio::null())
            .status();
        ensure!(made.context("running openssl")?.success(), "openssl made no certificate");
        Ok(fixtures)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Returns the servers with TLS or those without.
    pub(super) fn servers(&self, tls: bool) -> Vec<ServerSpec> {
        let mut ours = vec!["127.0.0.1:{port}".to_owned(), self.text("files")];
        if tls {
            ours.extend([self.text("certificate.pem"), self.text("key.pem")]);
        }
        let ours: Vec<&str> = ours.iter().map(String::as_str).collect();
        let example = Source::Example { package: "marmota-http", example: "web" };
        let mut servers = vec![
            ServerSpec::new("marmota", Role::Ours, example, &ours, "the example `web`"),
            ServerSpec::new(
                "nginx",
                Role::Peer,
                Source::Program("sh".into()),
                &["-c", START_NGINX, "sh", &self.nginx(tls)],
                "Debian's nginx, a worker per core",
            ),
        ];
        if !tls {
            for (name, package, word, about) in [
                ("hyper", "peer-axum", "http2", "axum on hyper's HTTP/2, a runtime per core"),
                ("axum", "peer-websocket", "axum", "axum's WebSockets, a runtime per core"),
                ("tungstenite", "peer-websocket", "tungstenite", "tokio-tungstenite alone"),
                ("fastwebsockets", "peer-websocket", "fastwebsockets", "fastwebsockets on hyper"),
            ] {
                let source = Source::Peer { set: "http", package };
                let arguments = ["--port", "{port}", word];
                servers.push(ServerSpec::new(name, Role::Peer, source, &arguments, about));
            }
        }
        servers
    }

    /// Returns nginx's configuration. As in Marmota, nothing is logged, metadata of files is cached
    /// for a second, and connections are not limited to a number of requests.
    fn nginx(&self, tls: bool) -> String {
        let (listen, certificate) = if tls {
            let (certificate, key) = (self.text("certificate.pem"), self.text("key.pem"));
            (
                "127.0.0.1:{port} ssl reuseport",
                format!("ssl_certificate {certificate}; ssl_certificate_key {key};"),
            )
        } else {
            ("127.0.0.1:{port} reuseport", String::new())
        };
        let folder = self.folder.path().display();
        format!(
            "daemon off; user root; pid nginx.pid; worker_processes auto; \
             events {{ worker_connections 20000; }} \
             http {{ access_log off; sendfile on; tcp_nopush on; tcp_nodelay on; \
             keepalive_requests 1000000000; \
             client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; \
             uwsgi_temp_path t4; scgi_temp_path t5; \
             open_file_cache max=1000; open_file_cache_valid 1s; default_type text/plain; \
             server {{ listen {listen}; {certificate} \
             location = /fixed {{ return 200 \"Hello, World!\"; }} \
             location = /json {{ default_type application/json; \
             return 200 \"{{\\\"message\\\":\\\"Hello, World!\\\"}}\"; }} \
             location /files/ {{ root {folder}; }} }} }}"
        )
    }

    /// Returns nginx with HTTP/2 without TLS. Its listener then accepts only HTTP/2.
    pub(super) fn nginx_http2(&self) -> ServerSpec {
        let conf = self.nginx(false).replace("{port} reuseport", "{port} http2 reuseport");
        let arguments = ["-c", START_NGINX, "sh", &conf];
        ServerSpec::new("nginx", Role::Peer, Source::Program("sh".into()), &arguments, "")
    }
}

/// Returns the content of the file with this name.
pub(super) fn content(name: &str) -> Vec<u8> {
    let bytes = FILES.iter().find(|(file, _)| *file == name).map_or(0, |(_, bytes)| *bytes);
    let line = b"The content of a static file does not matter to its server.\r\n";
    line.iter().copied().cycle().take(bytes).collect()
}

/// Installs nginx and the load generators if they are missing.
pub(super) fn install() -> Result<()> {
    for (program, package) in
        [("nginx", "nginx-light"), ("h2load", "nghttp2-client"), ("curl", "curl")]
    {
        let is_installed = || {
            let paths = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
                || Path::new("/usr/sbin").join(program).is_file()
        };
        if !is_installed() {
            eprintln!("{program} is not installed: installing it with apt-get");
            let status = Command::new("apt-get")
                .args(["install", "--yes", "--quiet", package])
                .stdout(Stdio::null())
                .status();
            ensure!(
                status.is_ok_and(|status| status.success()) && is_installed(),
                "{program} is needed: apt-get install {package}"
            );
        }
    }
    Ok(())
}
