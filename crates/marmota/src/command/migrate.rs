//! `migrate`: makes the database what the program's models need, or shows what
//! that would change.

use std::process::ExitCode;

use clap::Args;
use marmota_store::plan::{Effect, Losses, Plan, Step};

use super::{Command, Database, Done};

/// Makes the database what the models need
///
/// Tables, columns and indexes that are missing are made; what would lose
/// data is refused unless it is allowed.
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
}

impl Migrate {
    pub(super) fn run(&self, command: &Command) -> Done {
        let url = command.url(&self.database);
        let losses = Losses { needed: self.allow_loss, columns: self.drop.clone() };
        let plan = command.builder(seen(url))?.plan()?;
        let refusal = plan.check(&losses).err();
        if self.dry_run {
            print(&plan, &losses);
            return Ok(match (refusal, plan.to_do(&losses).next()) {
                (Some(refusal), _) => {
                    println!("It would be refused: {refusal}");
                    ExitCode::from(4)
                }
                (None, Some(_)) => ExitCode::from(3),
                (None, None) => {
                    println!("The database fits the models.");
                    ExitCode::SUCCESS
                }
            });
        }
        if let Some(refusal) = refusal {
            return Err(refusal.into());
        }
        command.builder(url)?.losses(losses.clone()).open()?.close()?;
        print(&plan, &losses);
        println!("The database fits the models.");
        Ok(ExitCode::SUCCESS)
    }
}

/// Where to look for what a database is: opening one that is not there would
/// make it.
fn seen(url: &str) -> &str {
    match url.split_once(':') {
        Some(("sqlite", _)) if !super::is_there(url) => "sqlite::memory:",
        Some(("memory", _)) if !super::is_there(url) => "memory:",
        _ => url,
    }
}

/// Prints the steps: `+` those that are done, `!` those that are refused, and
/// ` ` those that wait to be told.
fn print(plan: &Plan, losses: &Losses) {
    for step in &plan.steps {
        let is_done = plan.to_do(losses).any(|done| done == step);
        let mark = match (is_done, step.hindrance()) {
            (true, _) => '+',
            (false, Some(_)) => '!',
            (false, None) => ' ',
        };
        println!("{mark} {step}");
        if let Some(note) = note(step) {
            println!("    {note}");
        }
        for statement in &step.statements {
            println!("    {statement};");
        }
    }
}

fn note(step: &Step) -> Option<String> {
    match &step.effect {
        Effect::Keeps => None,
        Effect::Loses { what, way_out, .. } => Some(format!("{what}; {way_out}")),
        Effect::Refused(why) => Some(why.clone()),
    }
}
