//! nginx in front of the programs.

use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::{Process, free_port};

const START_MAX: Duration = Duration::from_secs(30);

pub(crate) struct Nginx {
    _process: Process,
    _folder: TempDir,
    url: String,
}

impl Nginx {
    /// Starts nginx, which sends requests to these ports in turn. A request that no program has
    /// received is sent to the next one; others get an error, because they may have been executed.
    pub(crate) fn start(ports: [u16; 3]) -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let root = folder.path().display();
        let servers: String =
            ports.map(|port| format!("server 127.0.0.1:{port} max_fails=0;\n")).concat();
        let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {root}/{name};\n"))
            .concat();
        let text = format!(
            "daemon off;\nmaster_process off;\npid {root}/nginx.pid;\nerror_log {root}/error.log;\n\
             events {{}}\nhttp {{\naccess_log off;\n{paths}upstream programs {{\n{servers}}}\n\
             server {{\nlisten 127.0.0.1:{port};\nlocation / {{\nproxy_pass http://programs;\nproxy_set_header Host $http_host;\n\
             proxy_connect_timeout 1s;\nproxy_read_timeout 8s;\n}}\n}}\n}}\n"
        );
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, text).unwrap();
        let mut nginx = Command::new("nginx");
        let process = Process::start(nginx.arg("-p").arg(folder.path()).arg("-c").arg(file));
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < START_MAX, "nginx does not start");
            thread::sleep(Duration::from_millis(10));
        }
        Self { _process: process, _folder: folder, url: format!("http://127.0.0.1:{port}") }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}
