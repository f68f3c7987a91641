//! Checks by external tools: h2spec (HTTP/2), sslyze (TLS) and Schemathesis (OpenAPI) against the
//! `marmota` program, and openapi-spec-validator against an OpenAPI document. The tools, Pebble for the tests of ACME,
//! axe-core for those of the pages, and the type checkers and libraries for those of clients are
//! installed under `target/tools` if they are missing.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::step::{Failure, WORKSPACE, cargo, free_port, go, root, run, wait_for};

const H2SPEC: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";
const PEBBLE: &str = "v2.6.0";
const AXE: &str = "axe-core-4.14.1";
/// A provider of OpenID Connect for the tests of sign-in.
const OPEN_ID: &str = "oidc-provider-9.13.3";
const TYPESCRIPT: &str = "typescript-7.0.2";
const MYPY: &str = "mypy==2.4.1";
/// Libraries for JSON Patch, of npm and PyPI.
const RFC6902: &str = "rfc6902-5.4.0";
const JSON_PATCH: &str = "jsonpatch==1.48";
const SSLYZE: &str = "sslyze==6.3.1";
const SCHEMATHESIS: &str = "schemathesis==4.32.5";
const OPENAPI: &str = "openapi-spec-validator==0.9.0";

/// A server that is killed at the end of the check.
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

/// Builds the programs with the features of the tests, so that nothing is built again after them.
fn build() -> Result<(), Failure> {
    run(cargo().arg("test").args(WORKSPACE).args(["--no-run", "--quiet"]))
}

/// Returns the path of a program built by [`build`].
fn built(name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| OsString::from("target"));
    root().join(target).join("debug").join(name)
}

/// Returns the folder of installed tools.
pub(crate) fn tools() -> PathBuf {
    root().join("target/tools")
}

/// The cases without TLS: all but one. In 3.5/2 a client sends an invalid connection preface; without
/// TLS that is an HTTP/1.1 request, which is answered with 400 before the connection is closed, and
/// h2spec expects no answer.
const WITHOUT_TLS: [&str; 8] =
    ["generic", "hpack", "http2/3.5/1", "http2/4", "http2/5", "http2/6", "http2/7", "http2/8"];

/// Runs all cases of h2spec, the strict ones included, over TLS; all but one without TLS.
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

/// Installs Pebble, a certificate authority for tests.
pub(crate) fn install_pebble() -> Result<(), Failure> {
    for program in ["pebble", "pebble-challtestsrv"] {
        if !tools().join(program).exists() {
            let package = format!("github.com/letsencrypt/pebble/v2/cmd/{program}@{PEBBLE}");
            run(go()?.args(["install", &package]).env("GOBIN", tools()))?;
        }
    }
    Ok(())
}

/// Installs axe-core, which checks the accessibility of the pages in the tests of `apps/marmota`.
pub(crate) fn install_axe() -> Result<(), Failure> {
    npm(AXE, "axe-core/axe.min.js")
}

/// Installs the provider of OpenID Connect with which the tests of `apps/marmota` sign in.
pub(crate) fn install_open_id_provider() -> Result<(), Failure> {
    npm(OPEN_ID, "oidc-provider/package.json")
}

/// Installs the type checkers and libraries for the tests of clients.
pub(crate) fn install_client_tools() -> Result<(), Failure> {
    npm(TYPESCRIPT, "typescript/package.json")?;
    npm(RFC6902, "rfc6902/package.json")?;
    python("jsonpatch", JSON_PATCH)?;
    python("mypy", MYPY).map(|_| ())
}

/// Installs a package of npm in the folder `NAME-VERSION`, where the tests look for the same version,
/// unless it has the file.
fn npm(package: &str, file: &str) -> Result<(), Failure> {
    let folder = tools().join(package);
    if folder.join("node_modules").join(file).is_file() {
        return Ok(());
    }
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]).arg(&folder);
    let (name, version) = package.rsplit_once('-').unwrap_or((package, "latest"));
    run(npm.arg(format!("{name}@{version}")))
}

/// Scans versions, ciphers and known vulnerabilities with sslyze, by Mozilla's "intermediate" rules.
pub(crate) fn tls() -> Result<(), Failure> {
    let folder = python("sslyze", SSLYZE)?;
    let port = free_port()?;
    let _serving = serve(port, &["--tls", "self-signed"])?;
    let judge = root().join("xtask/src/outsiders/tls.py");
    run(Command::new(folder.join("bin/python")).arg(judge).arg(port.to_string()))
}

/// Validates an OpenAPI document with tables, logins, services and streams, and sends a limited number of
/// requests made from another one.
pub(crate) fn open_api() -> Result<(), Failure> {
    let folder = python("openapi-spec-validator", OPENAPI)?;
    build()?;
    let example = built("examples/open_api");
    let printed = Command::new(example).stderr(Stdio::inherit()).output()?;
    if !printed.status.success() {
        return Err(Failure("the example `open_api` of marmota-service failed".to_owned()));
    }
    let document = tools().join("openapi.json");
    std::fs::write(&document, printed.stdout)?;
    run(Command::new(folder.join("bin/openapi-spec-validator")).arg(document))?;
    // Its other phases find something else in each run: they are a long run of their own.
    schemathesis_for(&["--phases", "coverage", "--seed", "1"])
}

/// Sends requests that Schemathesis makes from the OpenAPI document, for at most 15 minutes.
pub(crate) fn schemathesis() -> Result<(), Failure> {
    let options = ["--phases", "coverage,fuzzing", "--max-examples", "60", "--max-time", "900"];
    schemathesis_for(&options)
}

/// Sends requests that Schemathesis makes from the OpenAPI document, and checks their answers. The
/// routes of resumable uploads are left out: their protocol has statuses of its own.
fn schemathesis_for(options: &[&str]) -> Result<(), Failure> {
    let folder = python("schemathesis", SCHEMATHESIS)?;
    let files = std::env::temp_dir().join(format!("marmota-schemathesis-{}", std::process::id()));
    let app = root().join("apps/marmota/tests/clients/app.toml");
    let (app, files_url) = (app.display().to_string(), files.display().to_string());
    let port = free_port()?;
    let served = ["--app", &app, "--changes", "--idempotency", "--files", &files_url];
    let _serving = serve(port, &served)?;
    let mut program = Command::new(folder.join("bin/schemathesis"));
    program.arg("run").arg(format!("http://127.0.0.1:{port}/api/openapi.json"));
    program.args(["--continue-on-failure", "--exclude-path-regex", "/uploads$"]);
    // `schemathesis_hooks.py` has its own form of it.
    program.args(["--exclude-checks", "positive_data_acceptance"]);
    program.args(options);
    program.env("SCHEMATHESIS_HOOKS", root().join("xtask/src/outsiders/schemathesis_hooks.py"));
    let outcome = run(&mut program);
    std::fs::remove_dir_all(files)?;
    outcome
}

/// Installs a program and its dependencies from PyPI in a virtual environment; returns its folder.
fn python(program: &str, package: &str) -> Result<PathBuf, Failure> {
    let folder = tools().join(program);
    if !folder.join("bin").join(program).exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        run(Command::new(folder.join("bin/pip")).args(["install", "--quiet", package]))?;
    }
    Ok(folder)
}
