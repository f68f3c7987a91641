//! Runs commands, and prints each with its time.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The path of Go if it was installed from its archive.
const GO: &str = "/usr/local/go/bin/go";

/// The oldest version of Go that builds FerretDB.
const GO_MINOR_MIN: u32 = 22;

/// The workspace with the features of its program that are off by default, so that their tests
/// need no builds of their own.
pub(crate) const WORKSPACE: [&str; 4] =
    ["--workspace", "--locked", "--features", "marmota-cli/acme,marmota-cli/otel"];

/// The reason why a command failed.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

/// Returns the project's folder.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Returns the cargo that started this program, without incremental builds: their files take
/// gigabytes, and a run of all tests does not use them.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).env("CARGO_INCREMENTAL", "0");
    command
}

/// Runs a command to its end, with its output shown.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let shown = format!("{} {}", program.to_string_lossy(), words.join(" "));
    eprintln!("==> {shown}");
    let begun = Instant::now();
    let status =
        command.status().map_err(|error| Failure(format!("`{shown}` did not start: {error}")))?;
    eprintln!("<== {:.1} s", begun.elapsed().as_secs_f64());
    if status.success() { Ok(()) } else { Err(Failure(format!("`{shown}` failed: {status}"))) }
}

/// Returns Go, version 1.22 or newer, which not every distribution has.
pub(crate) fn go() -> Result<Command, Failure> {
    if Path::new(GO).is_file() {
        return Ok(Command::new(GO));
    }
    install_missing(&[("go", "golang-go")])?;
    let output = Command::new("go").arg("version").output()?;
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    if minor_version(&version).is_some_and(|minor| minor < GO_MINOR_MIN) {
        return Err(Failure(format!(
            "`{}` is too old: unpack go1.{GO_MINOR_MIN} or newer from https://go.dev/dl as /usr/local/go",
            version.trim()
        )));
    }
    Ok(Command::new("go"))
}

/// Parses the minor version: 22 in `go version go1.22.5 linux/amd64`.
fn minor_version(version: &str) -> Option<u32> {
    let digits = version.split_once("go1.")?.1;
    digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Installs the packages whose programs are missing, by apt. Each pair is a program, or the whole
/// path of a file, and its package.
pub(crate) fn install_missing(programs: &[(&str, &str)]) -> Result<(), Failure> {
    let missing: Vec<&str> = programs
        .iter()
        .filter(|(program, _)| !is_installed(program))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    run(apt_get().arg("update"))?;
    run(apt_get().args(["install", "--yes", "--no-install-recommends"]).args(missing))
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn apt_get() -> Command {
    // Containers run as root, without sudo.
    let mut command = if is_installed("sudo") {
        let mut sudo = Command::new("sudo");
        sudo.arg("apt-get");
        sudo
    } else {
        Command::new("apt-get")
    };
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Returns the names of the files with an extension in a folder, without the extension.
pub(crate) fn names_in(folder: &str, extension: &str) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root().join(folder))? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == extension)
            && let Some(name) = path.file_stem()
        {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Returns a free port of 127.0.0.1.
pub(crate) fn free_port() -> Result<u16, Failure> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Waits until a server listens on an address, for at most 20 s.
pub(crate) fn wait_for(address: &str) -> Result<(), Failure> {
    let begun = Instant::now();
    while std::net::TcpStream::connect(address).is_err() {
        if begun.elapsed() > Duration::from_secs(20) {
            return Err(Failure(format!("no server listens on {address} after 20 s")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::minor_version;

    #[test]
    fn the_version_of_go_is_read() {
        assert_eq!(minor_version("go version go1.19.8 linux/amd64\n"), Some(19));
        assert_eq!(minor_version("go version go1.26rc1 linux/amd64"), Some(26));
        assert_eq!(minor_version("go version devel"), None);
    }
}
