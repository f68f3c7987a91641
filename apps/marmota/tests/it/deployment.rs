//! Files for the deployment, messages to the service manager, manual pages and the version.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::Folder;

/// A process that is killed on drop.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    fn signal(&self, name: &str) {
        let process = self.0.id().to_string();
        assert!(Command::new("kill").args([name, &process]).status().unwrap().success());
    }
}

/// Returns the next message of the service manager's socket that begins with a text.
fn message(manager: &UnixDatagram, start: &str) -> String {
    let mut bytes = [0; 4096];
    loop {
        let count = manager.recv(&mut bytes).unwrap_or_else(|error| panic!("no {start}: {error}"));
        let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
        if text.starts_with(start) {
            return text;
        }
    }
}

#[test]
fn the_service_manager_gets_readiness_reloads_and_a_watchdog() {
    let folder = Folder::new();
    let socket = folder.0.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut program = folder.program(&["serve", "--db", "memory:", "--listen", "unix:web.sock"]);
    program.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "400000");
    let child = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut process = Process(child);
    assert!(message(&manager, "READY=1").contains("STATUS=serving"));
    // It is ready: a request is answered.
    let said = folder.run(&["healthcheck", "--listen", "unix:web.sock"]).with(0);
    assert_eq!(said, "unix:web.sock answers (404)\n");
    message(&manager, "WATCHDOG=1");
    process.signal("-HUP");
    let reload = message(&manager, "RELOADING=1");
    assert!(reload.contains("MONOTONIC_USEC="), "{reload}");
    message(&manager, "READY=1");
    message(&manager, "WATCHDOG=1");
    process.signal("-TERM");
    message(&manager, "STOPPING=1");
    assert!(process.0.wait().unwrap().success());
    let said = folder.run(&["healthcheck", "--listen", "unix:web.sock"]).with(1);
    assert!(said.contains("unix:web.sock does not answer"), "{said}");
}

/// Writes the files for the deployment to `deploy`.
fn deploy_files(folder: &Folder) -> std::path::PathBuf {
    folder.run(&["deploy-files", "--out", "deploy"]).with(0);
    folder.0.path().join("deploy")
}

#[test]
fn the_unit_is_valid_and_hardened() {
    let folder = Folder::new();
    let deploy = deploy_files(&folder);
    let said = folder.run(&["deploy-files", "--out", "deploy"]).with(1);
    assert!(said.contains("marmota.service exists"), "{said}");
    for entry in fs::read_dir(&deploy).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("@NAME@") && !text.contains("@OPTIONS@"), "{}", path.display());
        // `verify` needs the program where the unit starts it.
        let text = text.replace("/usr/bin/marmota", env!("CARGO_BIN_EXE_marmota"));
        fs::write(&path, text).unwrap();
    }
    // The settings of the unit are those of this program.
    let said = folder.run(&["config", "show", "--changed", "--config", "deploy/marmota.toml"]);
    let said = said.with(0);
    assert!(said.contains("trusted_proxies  unix"), "{said}");
    for unit in ["marmota.service", "marmota-backup.service", "marmota-backup.timer"] {
        let output = Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(deploy.join(unit))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        let faults: Vec<&str> = text.lines().filter(|line| line.contains("marmota")).collect();
        assert!(faults.is_empty(), "{unit}: {text}");
    }
    let output = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager", "--threshold=20"])
        .arg(deploy.join("marmota.service"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "an exposure above 2.0: {text}");
}

#[test]
fn nginx_passes_requests_and_websockets_to_the_socket() {
    let folder = Folder::new();
    let deploy = deploy_files(&folder);
    let root = folder.0.path();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let site = fs::read_to_string(deploy.join("nginx.conf")).unwrap();
    let site = site.replace("/run/marmota/http.sock", root.join("http.sock").to_str().unwrap());
    let site = site.replace("listen 80;", &format!("listen 127.0.0.1:{port};"));
    let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {}/{name};\n", root.display()))
        .concat();
    let text = format!(
        "daemon off;\nmaster_process off;\npid {0}/nginx.pid;\nerror_log {0}/error.log;\nevents {{}}\n\
         http {{\naccess_log off;\n{paths}{site}}}\n",
        root.display()
    );
    fs::write(root.join("nginx.all"), text).unwrap();
    let mut program = folder.program(&["serve", "--db", "memory:", "--listen", "unix:http.sock"]);
    program.args(["--socket-mode", "660", "--trusted-proxies", "unix", "--changes"]);
    program.args(["--access-log", "access.log"]);
    let child = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let _program = Process(child);
    let mut nginx = Command::new("nginx");
    nginx.arg("-p").arg(root).arg("-c").arg(root.join("nginx.all"));
    let child = nginx
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nginx, which `cargo xtask packages` installs");
    let mut nginx = Process(child);
    let url = format!("http://127.0.0.1:{port}/api/person?limit=1");
    let begun = Instant::now();
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).build().into();
    loop {
        let answer = agent.get(&url).header("X-Forwarded-For", "192.0.2.7").call();
        match answer {
            Ok(answer) if answer.status() == 200 => break,
            other => {
                let ended = nginx.0.try_wait().unwrap();
                let log = fs::read_to_string(root.join("error.log")).unwrap_or_default();
                assert!(
                    ended.is_none() && begun.elapsed() < Duration::from_secs(15),
                    "{other:?} {log}"
                );
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
    // The client is the address that nginx has seen, not one that the client claims.
    let begun = Instant::now();
    loop {
        let line = fs::read_to_string(root.join("access.log")).unwrap_or_default();
        if line.starts_with("127.0.0.1 - - ") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{line:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    // A live query stays open through the proxy, and its first event is not held back.
    let live = format!("http://127.0.0.1:{port}/api/person");
    let answer = agent.get(&live).header("Accept", "text/event-stream").call().unwrap();
    assert_eq!(answer.headers()["Content-Type"], "text/event-stream");
    let mut first = [0; 5];
    std::io::Read::read_exact(&mut answer.into_body().into_reader(), &mut first).unwrap();
    assert!(first.is_ascii(), "{first:?}");
}

#[test]
fn manual_pages_and_the_version_describe_the_build() {
    let folder = Folder::new();
    let page = folder.run(&["man"]).with(0);
    assert!(page.contains(".TH marmota 1"), "{page}");
    folder.run(&["man", "--out", "man"]).with(0);
    let page = fs::read_to_string(folder.0.path().join("man/marmota-serve.1")).unwrap();
    assert!(page.contains("rate\\-limit") && page.contains("MARMOTA_RATE_LIMIT"), "{page}");
    let output = Command::new("man")
        .args(["--warnings", "-l", "man/marmota-serve.1"])
        .env("MANPAGER", "cat")
        .current_dir(folder.0.path())
        .output();
    // The program man is not on every machine.
    if let Ok(output) = output {
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "groff understands the page");
    }
    let short = folder.run(&["version"]).with(0);
    assert_eq!(short, format!("marmota {}\n", env!("CARGO_PKG_VERSION")));
    let long = folder.run(&["version", "--verbose"]).with(0);
    assert!(long.starts_with(short.trim_end()), "{long}");
    assert!(long.contains("\nSQLite 3.") && long.contains("\ntarget: "), "{long}");
    let json: Value = serde_json::from_str(&folder.run(&["version", "--json"]).with(0)).unwrap();
    let features = json["features"].as_array().unwrap();
    assert!(features.contains(&"sqlite".into()) && features.contains(&"admin".into()), "{json}");
}
