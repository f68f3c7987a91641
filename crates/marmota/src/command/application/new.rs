//! `new`: the folder of an application without Rust code.
//!
//! ```text
//! $ marmota new shop
//! Created shop: app.toml, marmota.toml. Next:
//!   cd shop
//!   marmota serve
//! ```
//!
//! | file | content |
//! |---|---|
//! | `app.toml` | a first table, and rights of all users |
//! | `marmota.toml` | settings: users, live queries, statistics, files, the log, backups |
//! | `.gitignore` | the database and backups, which do not belong in version control |
//!
//! Nothing is overwritten.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::command::{Command, Done, JsonOutput, own_name};

/// Creates a folder with an application: its tables, its settings
///
/// The application has one table, `note`, for a start. Change `app.toml` and start `serve` again, or
/// check the change first with `schema diff`.
#[derive(Args)]
pub(in crate::command) struct New {
    /// The folder, which must be missing or empty; its last part is the application's name
    folder: PathBuf,
    #[command(flatten)]
    output: JsonOutput,
}

/// The first settings.
const SETTINGS: &str = r#"# The settings of `marmota serve`. Each option has a key: see `marmota config show`.

# Users and groups; the first start prints a token for the first administrator.
auth = true
# Lists can be followed: live queries.
changes = true
# Statistics for administrators.
diagnostics = true
# Requests with an `Idempotency-Key` can be repeated.
idempotency = true
# The bytes of file fields.
files = "data/files"
# Administrators see the last lines of the log, and what took at least 100 ms.
live_log = 1000
slow_query_ms = 100
# Administrators make backups, and set their schedule.
backups = "backups"
"#;

/// The first tables and groups.
const TABLES: &str = r#"# The tables of the application, and the rights of its users.
#
#   marmota schema check    checks this file
#   marmota schema diff     shows what it changes in the database
#   marmota schema apply    makes these changes; so does a start of `marmota serve`

[tables.note.fields]
id = { kind = "integer", role = "key" }
text = { kind = "text", max = 1000, not_empty = true, search = true }
done = { kind = "boolean", default = false }
created = { kind = "timestamp", role = "created_at" }
version = { kind = "integer", role = "version" }

# Every user may read and write all notes.
[[groups.everyone.grants]]
table = "note"
rights = ["read", "history", "insert", "update", "delete"]
"#;

/// Databases, files and backups do not belong in version control.
const IGNORED: &str = "/data/\n/backups/\n";

impl New {
    /// Creates the folder and its files.
    pub(in crate::command) fn run(&self, command: &Command) -> Done {
        let folder = &self.folder;
        let name = folder.display();
        match std::fs::read_dir(folder).map(|mut entries| entries.next().is_some()) {
            Ok(false) => {}
            Ok(true) => {
                return Err(format!("the folder {name} is not empty; name another one").into());
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                std::fs::create_dir(folder)
                    .map_err(|error| format!("cannot create the folder {name}: {error}"))?;
            }
            Err(error) => return Err(format!("cannot read the folder {name}: {error}").into()),
        }
        let (app, config) = (command.files.default_name(), command.files.config_name());
        for (file, text) in [(app, TABLES), (config, SETTINGS), (".gitignore", IGNORED)] {
            write(&folder.join(file), text)?;
        }
        let program = own_name();
        self.output.notice(
            || json!({ "folder": folder, "files": [app, config, ".gitignore"] }),
            || format!("Created {name}: {app}, {config}. Next:\n  cd {name}\n  {program} serve"),
        );
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes a file that must not exist.
fn write(path: &Path, text: &str) -> Result<(), String> {
    let file = std::fs::File::create_new(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}
