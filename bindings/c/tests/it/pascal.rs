//! The Pascal unit: the programs of `examples/pascal` are compiled with fpc and run.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use marmota_mongo::TemporaryMongo;

use crate::support::{library, program, root, run};

/// Compiles a program of the examples, or of `tests/pascal`.
fn compile_pascal(source: &Path, folder: &Path) -> PathBuf {
    let mut fpc = Command::new("fpc");
    fpc.args(["-O2", "-vew"]);
    fpc.arg(format!("-Fu{}", root().join("bindings/pascal").display()));
    fpc.arg(format!("-Fl{}", library().display()));
    fpc.arg(format!("-FU{}", folder.display())).arg(format!("-FE{}", folder.display())).arg(source);
    run(&mut fpc, Duration::from_secs(120));
    folder.join(source.file_stem().expect("a name"))
}

fn example(name: &str, folder: &Path) -> PathBuf {
    compile_pascal(&root().join("examples/pascal").join(name), folder)
}

/// A server that ends when its input does.
struct PascalServer {
    child: Child,
    port: u16,
}

impl PascalServer {
    fn start(mut program: Command) -> Self {
        let started = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.expect("the server");
        let out = child.stdout.take().expect("piped");
        // Other lines state what was loaded.
        let lines = BufReader::new(out).lines().map(|line| line.expect("a line"));
        let line = lines.into_iter().find(|line| line.starts_with("http:")).expect("an address");
        let port = line.trim_start_matches("http://127.0.0.1:").split('/').next();
        let port = port.and_then(|port| port.parse().ok());
        Self { port: port.unwrap_or_else(|| panic!("no port in {line:?}")), child }
    }

    /// Sends a request, and returns the answer with its head.
    fn request(&self, method: &str, path: &str, body: &str) -> String {
        let mut to = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        to.set_read_timeout(Some(Duration::from_secs(20))).expect("a time limit");
        let length = body.len();
        let head = "Host: localhost\r\nConnection: close\r\nContent-Type: application/json";
        write!(to, "{method} {path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}")
            .expect("send");
        let mut answer = Vec::new();
        to.read_to_end(&mut answer).expect("an answer");
        String::from_utf8(answer).expect("UTF-8")
    }

    /// Ends the input, and waits for the end of the program.
    #[track_caller]
    fn stop(mut self) {
        drop(self.child.stdin.take());
        let status = self.child.wait().expect("the end");
        assert!(status.success(), "the server ended with {status}");
    }
}

impl Drop for PascalServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn has(answer: &str, status: u16, parts: &[&str]) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    for part in parts {
        assert!(answer.contains(part), "no {part:?} in {answer}");
    }
}

#[test]
fn the_verbs_of_the_pascal_unit_do_what_they_state() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pascal/verbs.pas");
    let compiled = compile_pascal(&source, folder.path());
    let output = run(&mut program(&compiled, folder.path()), Duration::from_secs(60));
    assert!(output.ends_with("ok\n"), "{output}");
}

#[test]
fn pascal_interfaces_are_services() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pascal/services.pas");
    let compiled = compile_pascal(&source, folder.path());
    let output = run(&mut program(&compiled, folder.path()), Duration::from_secs(60));
    assert!(output.ends_with("ok\n"), "{output}");
}

#[test]
fn the_pascal_office_serves_documents_of_mongodb() {
    let folder = tempfile::tempdir().expect("a folder");
    let compiled = example("office.pas", folder.path());
    let mongo = TemporaryMongo::start().expect("a MongoDB server");
    for url in [mongo.url(), "memory:".to_owned()] {
        let mut server = program(&compiled, folder.path());
        let server = PascalServer::start({
            server.args([&url, "127.0.0.1:0"]);
            server
        });
        has(&server.request("GET", "/hello", ""), 200, &["text/html", "Hello, World!"]);
        let parts = [r#""name":"Burrow \"Nord\" & <Süd>""#, r#""availableUntilHour":18"#];
        has(&server.request("GET", "/json", ""), 200, &parts);
        has(&server.request("GET", "/mongo/1", ""), 200, &parts);
        let page = ["&lt;Süd&gt;</h1>", "mailto:office@example.org", "Open from 8 to 18 h"];
        has(&server.request("GET", "/office/1", ""), 200, &page);
        has(&server.request("GET", "/office/2", ""), 404, &["problem+json", "no such office"]);
        server.stop();
    }
}

#[test]
fn the_pascal_transit_server_joins_the_files_of_a_feed() {
    let folder = tempfile::tempdir().expect("a folder");
    let compiled = example("transit.pas", folder.path());
    let trips = "route_id,service_id,trip_id,trip_headsign\n\
                 Red,S1,T1,\"Ashmont, by Broadway\"\nBlue,S1,T2,\nRed,S2,\"T\"\"3\",x\n";
    let times = "trip_id,arrival_time,departure_time,stop_id\n\
                 T1,08:00:00,08:01:00,a\nT2,09:00:00,09:00:00,b\nT1,08:05:00,,c\n";
    std::fs::write(folder.path().join("trips.txt"), trips).expect("a file");
    std::fs::write(folder.path().join("stop_times.txt"), times).expect("a file");
    let mut server = program(&compiled, folder.path());
    let server = PascalServer::start({
        server.args([".", "127.0.0.1:0"]);
        server
    });
    let red = concat!(
        r#"[{"trip_id":"T1","service_id":"S1","route_id":"Red","schedules":["#,
        r#"{"stop_id":"a","arrival_time":"08:00:00","departure_time":"08:01:00"},"#,
        r#"{"stop_id":"c","arrival_time":"08:05:00","departure_time":""}]},"#,
        r#"{"trip_id":"T\"3","service_id":"S2","route_id":"Red","schedules":[]}]"#
    );
    has(&server.request("GET", "/schedules/Red", ""), 200, &["application/json", red]);
    has(&server.request("GET", "/schedules/none", ""), 200, &["\r\n\r\n[]"]);
    server.stop();
}

#[test]
fn the_pascal_server_of_people_withstands_its_stress_client() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = example("people_server.pas", folder.path());
    let client = example("people_client.pas", folder.path());
    let mut server = program(&server, folder.path());
    let server = PascalServer::start({
        server.arg("127.0.0.1:0");
        server
    });
    for transport in ["http", "ws"] {
        let mut client = program(&client, folder.path());
        client.arg(format!("{transport}://127.0.0.1:{}/store", server.port)).args(["50", "20"]);
        let output = run(&mut client, Duration::from_secs(120));
        assert!(output.contains("Assertions failed: 0 / 5999"), "{transport}: {output}");
    }
    let page = server.request("GET", "/api/people?limit=1&order=id", "");
    has(&page, 200, &["\"first_name\":\"First0\"", "\"year_of_birth\":1000"]);
    let born = server.request("GET", "/born-in/1003", "");
    has(&born, 200, &["\"count\" : 100", "\"first\" : \"Last0-3\""]);
    has(&server.request("GET", "/born-in/1", ""), 404, &["problem+json", "no one was born"]);
    let import = |body: &str| server.request("POST", "/import", body);
    has(&import("{"), 400, &["not JSON"]);
    has(&import("{}"), 422, &["no array"]);
    let person = r#"{"first_name":"Ada","last_name":"L","year_of_birth":1815}"#;
    has(&import(&format!(r#"{{"people":[{person}]}}"#)), 201, &["\"inserted\" : 1"]);
    let wrong = r#"{"people":[{"first_name":"Bob"},{"nickname":"B"}]}"#;
    has(&import(wrong), 422, &["problem+json", "nickname"]);
    let count = server.request("GET", "/api/people?filter=first_name%3D'Bob'", "");
    has(&count, 200, &["\"rows\":[]"]);
    server.stop();
}

#[test]
fn the_pascal_server_answers_the_techempower_requests() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = example("techempower.pas", folder.path());
    let mut server = program(&server, folder.path());
    let server = PascalServer::start({
        server.args(["memory:", "127.0.0.1:0"]);
        server
    });
    has(&server.request("GET", "/plaintext", ""), 200, &["text/plain", "Hello, World!"]);
    has(&server.request("GET", "/json", ""), 200, &[r#"{"message":"Hello, World!"}"#]);
    has(&server.request("GET", "/db", ""), 200, &["{\"id\":", "\"randomNumber\":"]);
    for path in ["/queries", "/updates"] {
        for (count, rows) in [("0", 1), ("7", 7), ("x", 1), ("501", 500)] {
            let answer = server.request("GET", &format!("{path}?queries={count}"), "");
            has(&answer, 200, &["application/json"]);
            assert_eq!(answer.matches("\"id\":").count(), rows, "{path} {count}");
        }
    }
    let fortunes = server.request("GET", "/fortunes", "");
    has(&fortunes, 200, &["&lt;script&gt;", "フレームワーク", "request time"]);
    server.stop();
}

#[test]
fn lazarus_builds_the_package_and_programs_compile_with_its_units() {
    let folder = tempfile::tempdir().expect("a folder");
    let package = folder.path().join("package");
    std::fs::create_dir(&package).expect("a folder");
    for file in std::fs::read_dir(root().join("bindings/pascal")).expect("the units").flatten() {
        if file.path().is_file() {
            std::fs::copy(file.path(), package.join(file.file_name())).expect("a copy");
        }
    }
    let mut lazbuild = Command::new("lazbuild");
    lazbuild.arg(format!("--pcp={}", folder.path().join("settings").display()));
    run(lazbuild.arg(package.join("marmota_package.lpk")), Duration::from_secs(120));
    let units = std::fs::read_dir(package.join("lib")).expect("the folder of units");
    let units = units.flatten().next().expect("the units of this platform").path();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pascal/verbs.pas");
    // Without linking, which the other tests do.
    let mut fpc = Command::new("fpc");
    fpc.args(["-Cn", "-vew"]).arg(format!("-Fu{}", units.display()));
    fpc.arg(format!("-FE{}", folder.path().display())).arg(source);
    run(&mut fpc, Duration::from_secs(120));
    assert!(folder.path().join("verbs.o").exists(), "the program is not compiled");
}
