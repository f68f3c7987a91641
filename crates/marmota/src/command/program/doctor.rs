//! `doctor`: checks the machine and the settings for what makes `serve` fail, slow or unsafe.
//!
//! ```text
//! $ people doctor
//! ok       settings          valid
//! ok       database          sqlite:data/people.db matches the models
//! warning  open files        1024: raise the limit (LimitNOFILE in systemd) to 65536
//! ok       disk sync         0.4 ms (median of 20); concurrent writes share a sync
//! ```
//!
//! | check | warning | failed |
//! |---|---|---|
//! | database | `serve` would change it | it cannot be opened, or a change would be refused |
//! | file modes | other users of the machine can open the database | |
//! | disk sync | a sync takes more than 20 ms | the folder is not writable |
//! | open files | fewer than 16,384 descriptors | |
//! | clock | | it is before the build of the program |
//! | address | | another process listens there |
//!
//! No check changes the database. The check of the disk writes a temporary file next to it.

use std::fs::{self, File};
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use marmota_store::plan::Destructive;
use serde_json::json;

use crate::command::{Command, Database, Done, JsonOutput, aligned};

/// Checks the machine, the database and the settings
///
/// Prints a line for each check: `ok`, `warning` for what makes the program slow or less safe, and
/// `failed` for what makes `serve` fail. Exits with 1 if a check has failed. Nothing is changed.
#[derive(Args)]
pub(in crate::command) struct Doctor {
    #[command(flatten)]
    database: Database,
    /// The address that is checked
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    #[command(flatten)]
    output: JsonOutput,
}

/// The number of descriptors that a server with many connections needs.
const OPEN_FILES_MIN: u64 = 16_384;
/// Measured syncs of the disk.
const SYNCS: usize = 20;
/// A sync that takes longer limits the rate of durable writes noticeably.
const SYNC_SLOW: Duration = Duration::from_millis(20);
/// A build of this program is newer than this time: 2026-01-01, in seconds.
const BUILT_AFTER_S: u64 = 1_767_225_600;

/// The result of a check, in one word.
#[derive(Clone, Copy, PartialEq)]
enum Health {
    /// Nothing to do.
    Ok,
    /// `serve` works, but slower or less safe than it could.
    Warning,
    /// `serve` would end with an error.
    Failed,
}

impl Health {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// The result of a check.
struct Finding {
    /// In one word.
    health: Health,
    /// What was checked.
    subject: &'static str,
    /// What was found, and what to do.
    text: String,
}

impl Doctor {
    /// Makes all checks, and prints a line for each.
    pub(in crate::command) fn run(&self, command: &Command) -> Done {
        let url = command.url(&self.database);
        let findings = [
            ("database", database(command, url)),
            ("file modes", modes(url)),
            ("disk sync", disk_sync(url)),
            ("open files", open_files()),
            ("clock", clock()),
            ("address", address(self.listen.as_deref().unwrap_or(command.listen))),
        ];
        let findings = findings.map(|(subject, (health, text))| Finding { health, subject, text });
        self.output.report(
            || {
                let rows = findings.iter().map(|Finding { health, subject, text }| {
                    json!({ "subject": subject, "health": health.name(), "text": text })
                });
                rows.collect()
            },
            || {
                aligned(findings.iter().map(|Finding { health, subject, text }| {
                    [health.name(), subject, text.as_str()]
                }))
            },
        )?;
        let is_failed = findings.iter().any(|finding| finding.health == Health::Failed);
        Ok(if is_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// The result of a check and its text.
type Checked = (Health, String);

/// Compares the database with the models, and changes nothing.
fn database(command: &Command, url: &str) -> Checked {
    if !crate::restore::is_there(url) {
        return (Health::Ok, format!("{url} is created at the first start"));
    }
    let plan = command.builder(url).and_then(marmota_store::StoreBuilder::plan);
    match plan {
        Err(error) => (Health::Failed, format!("{url}: {error}")),
        Ok(plan) => match plan.check(&Destructive::default()) {
            Err(refusal) => (Health::Failed, refusal.to_string()),
            Ok(_) if plan.to_do(&Destructive::default()).next().is_some() => {
                (Health::Warning, format!("{url}: `serve` will change it; see `migrate --dry-run`"))
            }
            Ok(_) => (Health::Ok, format!("{url} matches the models")),
        },
    }
}

/// Returns the file of a database with files.
fn file_of(url: &str) -> Option<PathBuf> {
    let path = url.strip_prefix("sqlite:").or_else(|| url.strip_prefix("memory:"))?;
    let path = path.split('?').next().filter(|path| !path.is_empty() && *path != ":memory:")?;
    Some(PathBuf::from(path.strip_prefix("//").unwrap_or(path)))
}

/// Checks that other users of the machine cannot read the database.
fn modes(url: &str) -> Checked {
    use std::os::unix::fs::PermissionsExt;
    let Some(file) = file_of(url) else {
        return (Health::Ok, "the database has no files".to_owned());
    };
    match fs::metadata(&file) {
        Err(_) => (Health::Ok, "files are created for their owner only".to_owned()),
        Ok(metadata) if metadata.permissions().mode() & 0o007 != 0 => {
            let mode = metadata.permissions().mode() & 0o777;
            let file = file.display();
            (
                Health::Warning,
                format!("{file} has the mode {mode:o}: all users of the machine can open it"),
            )
        }
        Ok(_) => (Health::Ok, "the database is closed to other users".to_owned()),
    }
}

/// Measures how long the disk takes to store a page: the limit of durable writes.
fn disk_sync(url: &str) -> Checked {
    let folder = file_of(url).and_then(|file| file.parent().map(Path::to_owned));
    let folder = folder.filter(|folder| folder.is_dir()).unwrap_or_else(|| PathBuf::from("."));
    match sync_times(&folder) {
        Err(error) => (Health::Failed, format!("cannot write to {}: {error}", folder.display())),
        Ok(mut times) => {
            times.sort_unstable();
            let median = times[SYNCS / 2];
            let health = if median > SYNC_SLOW { Health::Warning } else { Health::Ok };
            let ms = median.as_secs_f64() * 1_000.0;
            (health, format!("{ms:.2} ms (median of {SYNCS}); concurrent writes share a sync"))
        }
    }
}

/// Returns the times of single writes of a page, each of which is synced to the disk.
fn sync_times(folder: &Path) -> std::io::Result<Vec<Duration>> {
    let path = folder.join(format!(".marmota-doctor-{}", std::process::id()));
    let mut file = File::create_new(&path)?;
    let mut measure = || {
        let start = Instant::now();
        file.write_all(&[0; 4096])?;
        file.sync_data()?;
        Ok(start.elapsed())
    };
    let times = (0..SYNCS).map(|_| measure()).collect();
    fs::remove_file(&path)?;
    times
}

/// Checks the limit of descriptors, which limits the connections.
fn open_files() -> Checked {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    let hard = line.and_then(|line| line.split_whitespace().nth(4)).unwrap_or("unknown");
    match hard.parse::<u64>() {
        Ok(limit) if limit < OPEN_FILES_MIN => {
            let way_out = "raise the hard limit (LimitNOFILE in systemd, ulimit -Hn) to 65536";
            (Health::Warning, format!("{limit}: {way_out}"))
        }
        _ => (Health::Ok, hard.to_owned()),
    }
}

/// Checks that the clock is not before the build of this program: tokens and certificates need it.
fn clock() -> Checked {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    match now.as_secs() > BUILT_AFTER_S {
        true => (Health::Ok, marmota_model::Timestamp::now().to_string()),
        false => {
            (Health::Failed, "the clock is before 2026: set it, and run an NTP service".to_owned())
        }
    }
}

/// Checks that the address is free.
fn address(listen: &str) -> Checked {
    if listen.starts_with("unix:") {
        return (Health::Ok, format!("{listen} (Unix sockets are not checked)"));
    }
    match TcpListener::bind(listen) {
        Ok(_) => (Health::Ok, format!("{listen} is free")),
        Err(error) => {
            (Health::Failed, format!("{listen}: {error}; another process may listen there"))
        }
    }
}
