//! The README's example, as a user would try it: copied into a new crate that
//! depends on `marmota` by path, run, and asked over HTTP.

use std::fs;
use std::process::{Child, Command, Stdio};

use crate::step::{Failure, cargo, free_port, root, run, wait_for};

const ADDRESS: &str = "127.0.0.1:8080";

/// Kills the example when the check is over, however it ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn check() -> Result<(), Failure> {
    let readme = fs::read_to_string(root().join("README.md"))?;
    let example = block(&readme, "```rust\n")?;
    let lines = example.lines().count();
    if lines > 25 {
        return Err(Failure(format!("the README's example has {lines} lines; 25 are promised")));
    }
    let target = root().join("target");
    let folder = target.join("readme-example");
    fs::create_dir_all(folder.join("src"))?;
    // As a user would: only the path is known, and no lock file of ours.
    let manifest = format!(
        "[package]\nname = \"people\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [dependencies]\nmarmota = {{ path = {:?} }}\n\n[workspace]\n",
        root().join("crates/marmota")
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let port = free_port()?;
    let address = format!("127.0.0.1:{port}");
    // Only the port differs from what is printed: 8080 may be taken here.
    fs::write(folder.join("src/main.rs"), example.replace(ADDRESS, &address))?;
    run(cargo().arg("build").arg("--target-dir").arg(&target).current_dir(&folder))?;
    let _ = fs::remove_file(folder.join("people.db"));
    let child = Command::new(target.join("debug/people")).current_dir(&folder).spawn()?;
    let _running = Running(child);
    ask(&readme, &address)
}

/// Runs the README's curl lines and looks for what they are said to print.
fn ask(readme: &str, address: &str) -> Result<(), Failure> {
    let session = block(readme, "```console\n")?;
    let mut lines = session.lines().peekable();
    wait_for(address)?;
    let mut asked = 0;
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
        if got.trim() != wanted.trim() {
            return Err(Failure(format!("{command}\n  printed {got}\n  README  {wanted}")));
        }
        asked += 1;
    }
    if asked == 0 {
        return Err(Failure("the README shows no curl line behind its example".to_owned()));
    }
    eprintln!("==> the README's example answers {asked} curl lines as printed");
    Ok(())
}

fn block<'a>(readme: &'a str, fence: &str) -> Result<&'a str, Failure> {
    readme
        .split_once(fence)
        .and_then(|(_, rest)| rest.split_once("```"))
        .map(|(block, _)| block)
        .ok_or_else(|| Failure(format!("README.md has no {fence:?} block")))
}
