//! What tools of others say about the server: h2spec (HTTP/2) and sslyze (TLS), each against the
//! `marmota` program with TLS, and Pebble (ACME); and openapi-spec-validator about the document of its API. All are
//! installed under `target/tools` when they are missing.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::step::{Failure, cargo, free_port, go, root, run, wait_for};

const H2SPEC: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";
const PEBBLE: &str = "v2.6.0";
const SSLYZE: &str = "sslyze==6.3.1";
const OPENAPI: &str = "openapi-spec-validator==0.9.0";

/// A server that ends with the check, however it ends.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(port: u16, options: &[&str]) -> Result<Serving, Failure> {
    build()?;
    let address = format!("127.0.0.1:{port}");
    let child = Command::new(built("marmota"))
        .args(["serve", "--db", "memory:", "--listen", &address])
        .args(options)
        .stdout(Stdio::null())
        .spawn()?;
    let serving = Serving(child);
    wait_for(&address)?;
    Ok(serving)
}

/// Builds the programs with the features that the tests have, so that after the tests nothing is
/// left to build.
fn build() -> Result<(), Failure> {
    run(cargo().args(["test", "--workspace", "--locked", "--no-run", "--quiet"]))
}

/// A program that [`build`] has made.
fn built(name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| OsString::from("target"));
    root().join(target).join("debug").join(name)
}

fn tools() -> PathBuf {
    root().join("target/tools")
}

/// What is left out without TLS is one case: a client whose first words are none of HTTP/2 speaks
/// HTTP/1.1 there, and gets a 400 of that before the end, where h2spec wants the end alone.
const WITHOUT_TLS: [&str; 8] =
    ["generic", "hpack", "http2/3.5/1", "http2/4", "http2/5", "http2/6", "http2/7", "http2/8"];

/// All of h2spec's cases, also the strict ones, over TLS; all but one without.
pub(crate) fn http2() -> Result<(), Failure> {
    let h2spec = tools().join("h2spec");
    if !h2spec.exists() {
        run(go()?.args(["install", H2SPEC]).env("GOBIN", tools()))?;
    }
    for options in [&["--tls", "self-signed"][..], &[]] {
        let port = free_port()?;
        let _serving = serve(port, options)?;
        let words = match options {
            [] => &WITHOUT_TLS[..],
            _ => &["--tls", "--insecure"],
        };
        let arguments = ["--strict", "--timeout", "5", "--path", "/api/person?limit=3"];
        let port = port.to_string();
        run(Command::new(&h2spec).args(arguments).args(["--port", &port]).args(words))?;
    }
    Ok(())
}

/// Certificates from Pebble, Let's Encrypt's authority for tests.
pub(crate) fn acme() -> Result<(), Failure> {
    for program in ["pebble", "pebble-challtestsrv"] {
        if !tools().join(program).exists() {
            let package = format!("github.com/letsencrypt/pebble/v2/cmd/{program}@{PEBBLE}");
            run(go()?.args(["install", &package]).env("GOBIN", tools()))?;
        }
    }
    let whole =
        ["--package", "marmota-cli", "--package", "marmota-http", "--features", "marmota-cli/acme"];
    run(cargo().arg("clippy").args(whole).args(["--locked", "--", "-D", "warnings"]))?;
    let feature = ["--package", "marmota-http", "--features", "acme", "--locked"];
    run(cargo().arg("test").args(feature).args(["--test", "acme"]))
}

/// sslyze's scan: versions, ciphers and the known holes, by Mozilla's rules for clients of
/// today and yesterday ("intermediate").
pub(crate) fn tls() -> Result<(), Failure> {
    let folder = python("sslyze", SSLYZE)?;
    let port = free_port()?;
    let _serving = serve(port, &["--tls", "self-signed"])?;
    let judge = root().join("xtask/src/outsiders/tls.py");
    run(Command::new(folder.join("bin/python")).arg(judge).arg(port.to_string()))
}

/// openapi-spec-validator about a document with tables, logins, services and streams.
pub(crate) fn open_api() -> Result<(), Failure> {
    let folder = python("openapi-spec-validator", OPENAPI)?;
    build()?;
    let example = built("examples/open_api");
    let printed = Command::new(example).stderr(Stdio::inherit()).output()?;
    if !printed.status.success() {
        return Err(Failure("the example open_api of marmota-service has failed".to_owned()));
    }
    let document = tools().join("openapi.json");
    std::fs::write(&document, printed.stdout)?;
    run(Command::new(folder.join("bin/openapi-spec-validator")).arg(document))
}

/// A program of Python's that its package is named after, with what it needs.
fn python(program: &str, package: &str) -> Result<PathBuf, Failure> {
    let folder = tools().join(program);
    if !folder.join("bin").join(program).exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        run(Command::new(folder.join("bin/pip")).args(["install", "--quiet", package]))?;
    }
    Ok(folder)
}
