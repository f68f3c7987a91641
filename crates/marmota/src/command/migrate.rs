//! `migrate`: makes the database what the program's models need and carries out
//! its migrations, or shows what that would change.

use std::process::ExitCode;

use clap::Args;
use marmota_store::migration::MigrationStatus;
use marmota_store::plan::{Destructive, Effect, Plan, Step};

use super::{Command, Database, Done, OutputError, notice, report};

/// Makes the database what the models need
///
/// Tables, columns and indexes that are missing are made; what would lose
/// data is refused unless it is allowed. Behind that the program's migrations
/// are done that the database has not.
#[derive(Args)]
pub(super) struct Migrate {
    #[command(flatten)]
    database: Database,
    /// Show what would be done, and do nothing: ends with 0 if there is
    /// nothing to do, with 3 if there is, with 4 if that would be refused
    #[arg(long)]
    dry_run: bool,
    /// Do what loses data as well, where the models cannot be used without it
    #[arg(long)]
    allow_loss: bool,
    /// Drop or convert this column, whose values are lost; may come more than once
    #[arg(long, value_name = "TABLE.COLUMN")]
    drop: Vec<String>,
    /// Do or undo migrations until this one is the last that is done; 0: none is
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["dry_run", "status"])]
    to: Option<u32>,
    /// List the migrations, and do nothing
    #[arg(long, conflicts_with_all = ["dry_run", "allow_loss", "drop"])]
    status: bool,
}

impl Migrate {
    pub(super) fn run(&self, command: &Command) -> Done {
        let url = command.url(&self.database);
        let migrations = command.builder(seen(url))?.migration_status()?;
        if self.status {
            print_status(&migrations)?;
            return Ok(ExitCode::SUCCESS);
        }
        let changes = || migrations.iter().filter_map(|status| mark(status, self.to));
        let destructive = Destructive { needed: self.allow_loss, columns: self.drop.clone() };
        let plan = command.builder(seen(url))?.plan()?;
        let refusal = plan.check(&destructive).err();
        if self.dry_run {
            print(&plan, &destructive, &mut |line| report(line))?;
            changes().try_for_each(report)?;
            let is_done = plan.to_do(&destructive).next().is_none() && changes().next().is_none();
            return Ok(match refusal {
                Some(refusal) => {
                    report(format_args!("It would be refused: {refusal}"))?;
                    ExitCode::from(4)
                }
                None if !is_done => ExitCode::from(3),
                None => {
                    report("The database fits the models.")?;
                    ExitCode::SUCCESS
                }
            });
        }
        if let Some(refusal) = refusal {
            return Err(refusal.into());
        }
        let builder = command.builder(url)?.allow_destructive(destructive.clone());
        match self.to {
            Some(number) => builder.migrate_to(number)?,
            None => builder.open()?.close()?,
        }
        // It is done, if anyone reads of it or not.
        print(&plan, &destructive, &mut |line| {
            notice(line);
            Ok(())
        })?;
        changes().for_each(notice);
        notice("The database fits the models.");
        Ok(ExitCode::SUCCESS)
    }
}

/// Where to look for what a database is: opening one that is not there would
/// make it.
fn seen(url: &str) -> &str {
    match url.split_once(':') {
        Some(("sqlite", _)) if !crate::restore::is_there(url) => "sqlite::memory:",
        Some(("memory", _)) if !crate::restore::is_there(url) => "memory:",
        _ => url,
    }
}

/// What is done with a migration, if anything: `+` before what is done, `-`
/// before what is undone.
fn mark(status: &MigrationStatus, to: Option<u32>) -> Option<String> {
    let is_wanted = to.is_none_or(|to| status.number <= to);
    match (status.done, is_wanted) {
        (None, true) => Some(format!("+ {status}")),
        (Some(_), false) => Some(format!("- {status}")),
        _ => None,
    }
}

fn print_status(migrations: &[MigrationStatus]) -> Result<(), OutputError> {
    if migrations.is_empty() {
        report("The program has no migrations.")?;
    }
    for status in migrations {
        let done = match status.done {
            Some(at) => format!("done {at}"),
            None => "pending".to_owned(),
        };
        let note = match (status.is_known, status.has_down) {
            (false, _) => ", not in this program",
            (true, false) => ", cannot be undone",
            (true, true) => "",
        };
        report(format_args!("{status}: {done}{note}"))?;
    }
    Ok(())
}

/// Prints the steps: `+` those that are done, `!` those that are refused, and
/// ` ` those that wait to be told.
fn print(
    plan: &Plan,
    destructive: &Destructive,
    line: &mut dyn FnMut(String) -> Result<(), OutputError>,
) -> Result<(), OutputError> {
    for step in &plan.steps {
        let is_done = plan.to_do(destructive).any(|done| done == step);
        let mark = match (is_done, step.blocking_reason()) {
            (true, _) => '+',
            (false, Some(_)) => '!',
            (false, None) => ' ',
        };
        line(format!("{mark} {step}"))?;
        if let Some(note) = note(step) {
            line(format!("    {note}"))?;
        }
        for statement in &step.statements {
            line(format!("    {statement};"))?;
        }
    }
    Ok(())
}

fn note(step: &Step) -> Option<String> {
    match &step.effect {
        Effect::Safe => None,
        Effect::Destructive { what, way_out, .. } => Some(format!("{what}; {way_out}")),
        Effect::Refused(why) => Some(why.clone()),
    }
}
