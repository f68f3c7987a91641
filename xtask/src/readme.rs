//! Tries the examples of the README and of the guide's first page as a user would: in a new crate
//! that depends on `marmota` by path, run, and called over HTTP.

use std::fs;
use std::process::{Child, Command, Stdio};

use crate::step::{Failure, cargo, free_port, root, run, wait_for};

const ADDRESS: &str = "127.0.0.1:8080";

/// A running example, killed at the end of the check.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It fails if the process has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The README's example has at most this many lines.
const README_LINES_MAX: usize = 25;

pub(crate) fn check() -> Result<(), Failure> {
    let readme = fs::read_to_string(root().join("README.md"))?;
    let lines = block(&readme, "```rust\n")?.lines().count();
    if lines > README_LINES_MAX {
        let message =
            format!("the README's example has {lines} lines; {README_LINES_MAX} is the maximum");
        return Err(Failure(message));
    }
    try_page("README.md", "```rust\n", "people")?;
    try_page("docs/guide/01-getting-started.md", "```rust,no_run\n", "tasks")
}

/// Runs the first program of a page in a crate called `name`, and the page's curl commands.
fn try_page(page: &str, fence: &str, name: &str) -> Result<(), Failure> {
    let text = fs::read_to_string(root().join(page))?;
    let example = block(&text, fence)?;
    let target = root().join("target");
    let folder = target.join("page-examples").join(name);
    fs::create_dir_all(folder.join("src"))?;
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [dependencies]\nmarmota = {{ path = {:?} }}\n\n[workspace]\n",
        root().join("crates/marmota")
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let port = free_port()?;
    let address = format!("127.0.0.1:{port}");
    // Another port than on the page: 8080 may be in use.
    fs::write(folder.join("src/main.rs"), example.replace(ADDRESS, &address))?;
    run(cargo().arg("build").arg("--target-dir").arg(&target).current_dir(&folder))?;
    let _ = fs::remove_file(folder.join(format!("{name}.db")));
    let child = Command::new(target.join("debug").join(name)).current_dir(&folder).spawn()?;
    let _running = Running(child);
    call(page, &text, &address)
}

/// Runs a page's curl commands and compares their output with the page.
fn call(page: &str, text: &str, address: &str) -> Result<(), Failure> {
    let session = block(text, "```console\n")?;
    let mut lines = session.lines().peekable();
    wait_for(address)?;
    let mut called = 0;
    while let Some(line) = lines.next() {
        let Some(command) = line.strip_prefix("$ curl ") else { continue };
        let mut command = format!("curl -sS {}", command.replace(ADDRESS, address));
        while command.ends_with('\\') {
            command.pop();
            command.push_str(lines.next().unwrap_or_default());
        }
        let mut wanted = String::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
            wanted.push_str(line);
        }
        let output = Command::new("sh").args(["-c", &command]).stderr(Stdio::inherit()).output()?;
        let got = String::from_utf8_lossy(&output.stdout);
        // A page may wrap a long line.
        if got.lines().collect::<String>().trim() != wanted.trim() {
            return Err(Failure(format!("{command}\n  printed {got}\n  {page}  {wanted}")));
        }
        called += 1;
    }
    if called == 0 {
        return Err(Failure(format!("{page} has no curl command after its example")));
    }
    eprintln!("==> {page}: the example answers {called} curl commands as printed");
    Ok(())
}

fn block<'a>(page: &'a str, fence: &str) -> Result<&'a str, Failure> {
    page.split_once(fence)
        .and_then(|(_, rest)| rest.split_once("```"))
        .map(|(block, _)| block)
        .ok_or_else(|| Failure(format!("a page has no {fence:?} block")))
}
