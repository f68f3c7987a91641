//! `migrate`: changes the database so that it fits the program's models, and runs its migrations; or
//! shows what would change.
//!
//! ```text
//! $ people migrate --dry-run
//! + add column person.email
//!     ALTER TABLE person ADD COLUMN email TEXT;
//! $ echo $?
//! 3
//! ```
//!
//! A line begins with `+` for a change that is made, with `!` for one that is refused, and with a
//! blank for one that needs `--allow-loss` or `--drop`.

use std::process::ExitCode;

use clap::Args;
use marmota_store::migration::MigrationStatus;
use marmota_store::plan::{Destructive, Plan, PlanStep, StepEffect};
use serde_json::{Value, json};

use super::{Command, Database, Done, JsonOutput};

/// Changes the database so that it fits the models
///
/// Missing tables, columns and indexes are created; a change that would lose data is refused unless
/// it is allowed. Then the program's pending migrations run.
#[derive(Args)]
pub(super) struct Migrate {
    #[command(flatten)]
    database: Database,
    /// Show what would be done, and do nothing: exits with 0 if there is nothing to do, with 3 if
    /// changes are pending, with 4 if a change would be refused
    #[arg(long)]
    dry_run: bool,
    /// Also make changes that lose data, where the models cannot be used without them
    #[arg(long)]
    allow_loss: bool,
    /// Drop or convert this column, whose values are lost; may be repeated
    #[arg(long, value_name = "TABLE.COLUMN")]
    drop: Vec<String>,
    /// Run or undo migrations until this one is the last; 0: undo all
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["dry_run", "status"])]
    to: Option<u32>,
    /// List the migrations, and do nothing
    #[arg(long, conflicts_with_all = ["dry_run", "allow_loss", "drop"])]
    status: bool,
    #[command(flatten)]
    output: JsonOutput,
}

impl Migrate {
    /// Returns the arguments that show what would be done.
    #[cfg(feature = "app")]
    pub(super) fn dry_run_of(database: &Database, output: JsonOutput) -> Self {
        Self {
            database: database.clone(),
            dry_run: true,
            allow_loss: false,
            drop: Vec::new(),
            to: None,
            status: false,
            output,
        }
    }

    /// Shows or makes the changes. Exit codes of `--dry-run`: 0 for nothing to do, 3 for pending
    /// changes, 4 for a change that would be refused.
    pub(super) fn run(&self, command: &Command) -> Done {
        let url = command.url(&self.database);
        let migrations = command.builder(seen(url))?.migration_status()?;
        if self.status {
            self.output.report(|| self.json_of(&migrations), || status_text(&migrations))?;
            return Ok(ExitCode::SUCCESS);
        }
        let changes = || migrations.iter().filter_map(|status| mark(status, self.to));
        let destructive = Destructive { needed: self.allow_loss, columns: self.drop.clone() };
        let plan = command.builder(seen(url))?.plan()?;
        let refusal = plan.check(&destructive).err();
        let json = || {
            let steps = plan.steps.iter().map(|step| json_of_step(step, &plan, &destructive));
            json!({
                "is_applied": !self.dry_run,
                "steps": steps.collect::<Vec<_>>(),
                "migrations": self.json_of(&migrations),
                "refusal": refusal.as_ref().map(ToString::to_string),
            })
        };
        let text = |end: &str| {
            let mut lines = lines_of(&plan, &destructive);
            lines.extend(changes());
            lines.push(end.to_owned());
            lines.retain(|line| !line.is_empty());
            lines.join("\n")
        };
        const FITS: &str = "The database matches the models.";
        if self.dry_run {
            let is_done = plan.to_do(&destructive).next().is_none() && changes().next().is_none();
            let (end, code) = match &refusal {
                Some(refusal) => (format!("It would be refused: {refusal}"), ExitCode::from(4)),
                None if !is_done => (String::new(), ExitCode::from(3)),
                None => (FITS.to_owned(), ExitCode::SUCCESS),
            };
            self.output.report(json, || text(&end))?;
            return Ok(code);
        }
        if let Some(refusal) = refusal {
            return Err(refusal.into());
        }
        let builder = command.builder(url)?.allow_destructive(destructive.clone());
        match self.to {
            Some(number) => builder.migrate_to(number)?,
            None => builder.open()?.close()?,
        }
        // The changes are made even if the output is closed.
        self.output.notice(json, || text(FITS));
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the migrations as JSON, as they were before this run.
    fn json_of(&self, migrations: &[MigrationStatus]) -> Value {
        let json = |status: &MigrationStatus| {
            let is_wanted = self.to.is_none_or(|to| status.number <= to);
            json!({
                "number": status.number,
                "name": status.name,
                "done_at": status.done.map(|at| at.to_string()),
                "is_known": status.is_known,
                "can_be_undone": status.has_down,
                "action": match (status.done, is_wanted) {
                    _ if self.status => None,
                    (None, true) => Some("run"),
                    (Some(_), false) => Some("undo"),
                    _ => None,
                },
            })
        };
        migrations.iter().map(json).collect()
    }
}

/// Returns a step as JSON.
fn json_of_step(step: &PlanStep, plan: &Plan, destructive: &Destructive) -> Value {
    json!({
        "change": step.to_string(),
        "effect": match step.effect {
            StepEffect::Safe => "safe",
            StepEffect::Destructive { .. } => "destructive",
            StepEffect::Refused(_) => "refused",
        },
        "is_wanted": plan.to_do(destructive).any(|done| done == step),
        "note": note(step),
        "statements": step.statements,
    })
}

/// Returns the URL to inspect. For a missing file it is an empty database in memory, since opening
/// the file would create it.
fn seen(url: &str) -> &str {
    match url.split_once(':') {
        Some(("sqlite", _)) if !crate::restore::is_there(url) => "sqlite::memory:",
        Some(("memory", _)) if !crate::restore::is_there(url) => "memory:",
        _ => url,
    }
}

/// Returns the line for a migration that is run (`+`) or undone (`-`); `None` for others.
fn mark(status: &MigrationStatus, to: Option<u32>) -> Option<String> {
    let is_wanted = to.is_none_or(|to| status.number <= to);
    match (status.done, is_wanted) {
        (None, true) => Some(format!("+ {status}")),
        (Some(_), false) => Some(format!("- {status}")),
        _ => None,
    }
}

/// Returns a line for each migration: its number and name, and when it was run.
fn status_text(migrations: &[MigrationStatus]) -> String {
    if migrations.is_empty() {
        return "The program has no migrations.".to_owned();
    }
    let line = |status: &MigrationStatus| {
        let done = match status.done {
            Some(at) => format!("done {at}"),
            None => "pending".to_owned(),
        };
        let note = match (status.is_known, status.has_down) {
            (false, _) => ", not in this program",
            (true, false) => ", cannot be undone",
            (true, true) => "",
        };
        format!("{status}: {done}{note}")
    };
    migrations.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns lines for the steps, marked with `+` if they are done, with `!` if they are refused, and
/// with ` ` if they need permission.
fn lines_of(plan: &Plan, destructive: &Destructive) -> Vec<String> {
    let mut lines = Vec::new();
    for step in &plan.steps {
        let is_done = plan.to_do(destructive).any(|done| done == step);
        let mark = match (is_done, step.blocking_reason()) {
            (true, _) => '+',
            (false, Some(_)) => '!',
            (false, None) => ' ',
        };
        lines.push(format!("{mark} {step}"));
        lines.extend(note(step).map(|note| format!("    {note}")));
        lines.extend(step.statements.iter().map(|statement| format!("    {statement};")));
    }
    lines
}

/// Returns the explanation of a step that loses data or is refused; `None` for a safe one.
fn note(step: &PlanStep) -> Option<String> {
    match &step.effect {
        StepEffect::Safe => None,
        StepEffect::Destructive { what, way_out, .. } => Some(format!("{what}; {way_out}")),
        StepEffect::Refused(why) => Some(why.clone()),
    }
}
