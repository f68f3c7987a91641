//! `move`: copies all rows from one database to another, between any engines.
//!
//! ```text
//! $ people move --from sqlite:data/people.db --to postgres://localhost/people
//! person: 31 rows, the same in both, checksum 3fd1c0de5a1f4b7794f2a1f0d3e8b6c5
//! ```
//!
//! The store copies and compares ([`marmota_store::StoreBuilder::transfer_to`]); this file adds the
//! tables that no model of the program names, and shows the progress. `moving/live.rs` has the moves of
//! running servers.

#[cfg(feature = "app")]
mod live;

use std::process::ExitCode;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use marmota_model::text::counted;
use marmota_store::operation::ANSWERS;
use marmota_store::{Idempotency, StoreBuilder};
use serde_json::json;

use super::{Command, Done, JsonOutput};

/// Copies all rows of a database to another one and compares them
///
/// An interrupted move continues when it is started again. Do not write to the databases meanwhile:
/// if they differ at the end, the move fails. The first database is not changed.
///
/// With --live, a running server moves to the other database while it serves.
#[derive(Args)]
pub(super) struct Move {
    /// The database to copy
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// The new database, of any engine
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    #[cfg(feature = "app")]
    #[command(flatten)]
    live: live::LiveOptions,
    /// A table without a model, which is not copied; may be repeated
    #[arg(long, value_name = "TABLE")]
    leave: Vec<String>,
    #[command(flatten)]
    output: JsonOutput,
}

impl Move {
    /// Copies the rows, and prints a line for each table.
    pub(super) fn run(&self, command: &Command) -> Done {
        #[cfg(feature = "app")]
        if self.live.is_used() {
            return self.live.run(command, self.from.as_deref(), self.to.as_deref(), &self.output);
        }
        let (Some(from), Some(to)) = (&self.from, &self.to) else {
            return Err("name the database to copy with --from, and the new one with --to".into());
        };
        if !crate::restore::is_there(from) {
            return Err("there is no database to move: name one with --from".into());
        }
        if from == to {
            return Err("--from and --to are the same database".into());
        }
        let from = command.builder(from)?.leave(&self.leave);
        let (from, to) = with_own_tables(from, command.builder(to)?)?;
        let bar = bar();
        let moved = from.transfer_to(to, &mut |progress| {
            bar.set_length(progress.rows_total);
            bar.set_position(progress.rows);
            if bar.message() != progress.table {
                bar.set_message(progress.table.to_owned());
            }
        });
        bar.finish_and_clear();
        let moved = moved?;
        self.output.notice(
            || {
                let tables = moved.iter().map(|table| {
                    json!({
                        "table": table.table,
                        "rows": table.rows,
                        "rows_before": table.were_there,
                        "checksum": format!("{:032x}", table.checksum),
                    })
                });
                json!({ "tables": tables.collect::<Vec<_>>() })
            },
            || {
                let lines = moved.iter().map(|table| {
                    let were_there = match table.were_there {
                        0 => String::new(),
                        rows => format!(" (before: {rows})"),
                    };
                    format!(
                        "{}: {}{were_there}, the same in both, checksum {:032x}",
                        table.table,
                        counted(table.rows, "row"),
                        table.checksum
                    )
                });
                lines.collect::<Vec<_>>().join("\n")
            },
        );
        Ok(ExitCode::SUCCESS)
    }
}

/// Adds the tables that `serve` manages itself if the database has them: users, whether or not this
/// program is started with `--auth`, and the answers to idempotent batches.
fn with_own_tables(
    mut from: StoreBuilder,
    mut to: StoreBuilder,
) -> marmota_model::Result<(StoreBuilder, StoreBuilder)> {
    let existing = from.existing_tables()?.unwrap_or_default();
    let has = |table: &str| existing.iter().any(|name| name == table);
    if has("marmota_user") {
        if !from.has_model("marmota_user") {
            from = marmota_auth::models(from);
        }
        if !to.has_model("marmota_user") {
            to = marmota_auth::models(to);
        }
    }
    if has(ANSWERS) {
        from = from.idempotency(Idempotency::default());
        to = to.idempotency(Idempotency::default());
    }
    Ok((from, to))
}

/// Returns a progress bar in rows; it is drawn only on a terminal.
fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent}% {msg} {eta}") {
        bar.set_style(style);
    }
    bar
}
