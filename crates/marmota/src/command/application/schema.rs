//! `schema`: checks the file of tables, compares it with the database, and makes one from the program's
//! models.
//!
//! | action | database | exit codes |
//! |---|---|---|
//! | `check` | not opened | 0, 1 for an invalid file |
//! | `diff` | not changed | 0 without changes, 3 if some are pending, 4 if one would be refused |
//! | `apply` | changed | 0, 1 if a change was refused |
//! | `export` | not changed | 0, 1 for what a file cannot have |
//! | `adopt` | not changed | 0, 1 if it has no table that fits |
//! | `json-schema` | not opened | 0 |
//!
//! `diff` and `apply` are `migrate` for a program with a file.

use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

use clap::{Args, Subcommand};
use marmota_app::{AppFile, AppFormat, AppGroup};
use marmota_store::rights::is_internal;
use serde_json::json;

use super::adopt;
use crate::command::migrate::Migrate;
use crate::command::{Command, Database, Done, JsonOutput, own_name, report};

/// Checks the file with the tables, and applies it to the database
///
/// `serve` applies the file at its start, except for changes that lose values: these need
/// `schema apply` with an option that allows them.
#[derive(Args)]
pub(in crate::command) struct SchemaCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Checks the file and its groups, without a database
    ///
    /// Names, kinds, rules, defaults, references, relations and the rules of grants are checked. An
    /// error has its line and column where it has one. Exits with 1 then.
    Check {
        #[command(flatten)]
        output: JsonOutput,
    },
    /// Shows what the file changes in the database: exits with 0 if it changes nothing, with 3 if changes
    /// are pending, with 4 if a change would be refused
    Diff {
        #[command(flatten)]
        database: Database,
        #[command(flatten)]
        output: JsonOutput,
    },
    /// Changes the database so that it fits the file
    Apply(Migrate),
    /// Prints the tables as a file: those of the file, or the program's models
    ///
    /// A model with a rule that is a Rust function cannot be in a file, and is named.
    Export {
        #[command(flatten)]
        database: Database,
        /// The format: toml or json
        #[arg(long, default_value = "toml", value_parser = ["toml", "json"])]
        format: String,
    },
    /// Makes a file of an existing SQLite or PostgreSQL database
    ///
    /// The file has the tables, fields, indexes, references and constraints of the database as far as
    /// Marmota has them; the rest is reported, with the reason and what to do, and is a comment in the
    /// file. The database is not changed, and `serve` over the file changes none of its tables.
    Adopt {
        /// The database, such as sqlite:shop.db or postgres://ada@localhost/shop
        url: String,
        /// For PostgreSQL: the schema with the tables. Default: the first one of the search path
        #[arg(long, value_name = "NAME")]
        schema: Option<String>,
        /// The new file, in TOML, or in JSON if its name ends with .json. Default: standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        #[command(flatten)]
        output: JsonOutput,
    },
    /// Prints the JSON Schema of the file, for editors
    ///
    /// An editor with support for TOML or JSON schemas completes and checks the file by it.
    JsonSchema,
}

impl SchemaCommand {
    /// Executes the action.
    pub(in crate::command) fn run(&self, command: &Command) -> Done {
        match &self.action {
            Action::Check { output } => check(command, *output),
            Action::Diff { database, output } => {
                file(command)?;
                Migrate::dry_run_of(database, *output).run(command)
            }
            Action::Apply(migrate) => {
                file(command)?;
                migrate.run(command)
            }
            Action::Export { database, format } => {
                let app = export(command, database)?;
                let format = AppFormat::of_path(format!("app.{format}").as_ref());
                let text = match format {
                    AppFormat::Toml => app.to_toml(),
                    AppFormat::Json => app.to_json(),
                };
                report(text.trim_end())?;
                Ok(ExitCode::SUCCESS)
            }
            Action::Adopt { url, schema, out, output } => {
                adopt::run(url, schema.as_deref(), out.as_deref(), *output)
            }
            Action::JsonSchema => {
                report(AppFile::json_schema())?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// Returns the file of tables.
fn file(command: &Command) -> Result<Rc<AppFile>, Box<dyn std::error::Error>> {
    let program = own_name();
    command.files.app()?.ok_or_else(|| {
        let name = command.files.default_name();
        let message = format!(
            "there is no {name} in this folder: name the file with --app, or create an application \
             with `{program} new FOLDER`"
        );
        message.into()
    })
}

/// Checks the file without its database.
fn check(command: &Command, output: JsonOutput) -> Done {
    let app = file(command)?;
    let path = command.files.path().unwrap_or_else(|| "app.toml".as_ref()).display();
    // A fault with a place begins with the path.
    command.files.check(&app).map_err(|error| match error.message() {
        message if message.starts_with(&format!("{path}:")) => message.to_owned(),
        message => format!("{path}: {message}"),
    })?;
    let (tables, groups) = (app.schemas().len(), app.groups().len());
    output.report(
        || json!({ "file": path.to_string(), "tables": tables, "groups": groups }),
        || {
            let count = |count: usize, noun: &str| match count {
                1 => format!("1 {noun}"),
                _ => format!("{count} {noun}s"),
            };
            let (tables, groups) = (count(tables, "table"), count(groups, "group"));
            format!("{path}: {tables} and {groups}, valid")
        },
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the tables as a file.
fn export(command: &Command, database: &Database) -> Result<AppFile, Box<dyn std::error::Error>> {
    if let Some(app) = command.files.app()? {
        return Ok((*app).clone());
    }
    // The models are those of any store of the program; one in memory leaves the database alone.
    let store = match command.url(database).split_once(':') {
        Some(("sqlite" | "memory", _)) => command.builder("memory:")?.models_alone().open()?,
        _ => command.builder(command.url(database))?.open()?,
    };
    let tables = store.registry().tables().iter().filter(|table| !is_internal(table));
    let schemas: Vec<_> = tables.map(|table| table.schema().clone()).collect();
    Ok(AppFile::from_schemas(&schemas, Vec::<AppGroup>::new())?)
}
