//! Measures how long other requests wait during a scan of 2 million rows: the example `scan_waits` of
//! `marmota-cli`.

use std::process::Command;

use super::{run_and_print, target};
use crate::step::{Failure, cargo, run};
use crate::summary::Outcome;

/// Runs the example with these arguments.
pub(super) fn waits(arguments: &[&str]) -> Result<Outcome, Failure> {
    let build = ["build", "--release", "--locked", "-p", "marmota-cli"];
    run(cargo().args(build).args(["--example", "scan_waits"]))?;
    let folder = std::env::temp_dir().join(format!("marmota-scan-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let shown = folder.display().to_string();
    let mut command = Command::new(target().join("release/examples/scan_waits"));
    command.args(arguments.iter().map(|word| word.replace("{folder}", &shown)));
    let ended = run_and_print(&mut command);
    std::fs::remove_dir_all(&folder)?;
    Ok(match ended? {
        (Some(0), _) => Outcome::Passed,
        (_, last) => Outcome::Failed(last),
    })
}
