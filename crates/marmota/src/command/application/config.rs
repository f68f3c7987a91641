//! `marmota.toml`: a key for each option of `serve`, and `config`, which shows where each value is from.
//!
//! A value is taken from the command line, otherwise from the environment (`MARMOTA_LISTEN` for
//! `--listen`), otherwise from the file (`listen`), otherwise the default applies. The options are those
//! of clap's parser: an option that `serve` gets later is a key without another line of code.

use std::path::Path;
use std::process::ExitCode;

use clap::builder::{OsStr, Resettable};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Args, Subcommand};
use marmota_model::{Error, ErrorKind, Result};
use toml_edit::{Document, Item, Value};

use crate::command::{Command, Done, report};

/// Options that are not settings: they name files with settings, or print something.
const NOT_SETTINGS: [&str; 4] = ["app", "config", "help", "version"];

/// Shows and checks the settings of `serve`
#[derive(Args)]
pub(in crate::command) struct ConfigCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Check the file and the environment, and do nothing
    Check,
    /// Print each setting, its value, and where the value is from
    Show {
        /// Print only the settings that differ from their defaults
        #[arg(long)]
        changed: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl ConfigCommand {
    pub(in crate::command) fn run(&self, command: &Command) -> Done {
        let settings = current(command)?;
        match self.action {
            Action::Check => {
                report(match settings.iter().filter(|one| one.is_changed()).count() {
                    0 => "All settings have their defaults.".to_owned(),
                    1 => "1 setting is valid.".to_owned(),
                    count => format!("{count} settings are valid."),
                })?
            }
            Action::Show { changed, json } => {
                let shown = settings.iter().filter(|one| !changed || one.is_changed());
                if json {
                    let rows: Vec<_> = shown.map(Setting::to_json).collect();
                    report(serde_json::to_string_pretty(&rows)?)?;
                } else {
                    let shown: Vec<&Setting> = shown.collect();
                    let widths = |of: fn(&Setting) -> usize| shown.iter().map(|one| of(one)).max();
                    let key = widths(|one| one.key.len()).unwrap_or(0);
                    let value = widths(|one| one.value.chars().count()).unwrap_or(0).min(40);
                    for Setting { key: name, value: text, source } in shown {
                        report(format_args!("{name:key$}  {text:value$}  {source}"))?;
                    }
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A setting of `serve`.
struct Setting {
    key: String,
    value: String,
    source: String,
}

impl Setting {
    fn is_changed(&self) -> bool {
        self.source != "default"
    }

    fn to_json(&self) -> serde_json::Value {
        serde_json::json!({ "key": self.key, "value": self.value, "source": self.source })
    }
}

/// Returns the settings that `serve` would have now, without arguments.
fn current(command: &Command) -> std::result::Result<Vec<Setting>, Box<dyn std::error::Error>> {
    let plain = command.parser("marmota");
    let arguments = [std::ffi::OsString::from("marmota")];
    let parser = command.files.configure(plain.clone(), &arguments)?;
    let file = command.files.config_name();
    let matches = parser.clone().try_get_matches_from(arguments).map_err(|error| {
        // Clap's text has a usage line, which is about arguments.
        let text = error.to_string();
        let text =
            text.split("\n\n").next().unwrap_or(&text).trim_start_matches("error: ").to_owned();
        format!("{file} or the environment: {text}")
    })?;
    let setting = |argument: &Arg| {
        let id = argument.get_id().as_str();
        let of_file = || {
            let before = plain.get_arguments().find(|plain| plain.get_id() == argument.get_id());
            before
                .is_some_and(|before| before.get_default_values() != argument.get_default_values())
        };
        let source = match matches.value_source(id) {
            Some(ValueSource::EnvVariable) => {
                let name = argument.get_env().unwrap_or_default().to_string_lossy();
                format!("environment variable {name}")
            }
            Some(ValueSource::DefaultValue) if of_file() => file.to_owned(),
            _ => "default".to_owned(),
        };
        let values = matches.get_raw(id).into_iter().flatten();
        let values: Vec<String> =
            values.map(|value| without_password(&value.to_string_lossy())).collect();
        let value = match values.is_empty() {
            true if is_flag(argument) => "false".to_owned(),
            true => "-".to_owned(),
            false => values.join(","),
        };
        Setting { key: key_of(argument).unwrap_or_default(), value, source }
    };
    Ok(parser.get_arguments().filter(|argument| key_of(argument).is_some()).map(setting).collect())
}

/// Returns a URL with its password replaced by `***`.
fn without_password(value: &str) -> String {
    let Some((scheme, rest)) = value.split_once("://") else { return value.to_owned() };
    let Some((user, host)) = rest.split_once('@') else { return value.to_owned() };
    match user.split_once(':') {
        Some((name, _)) => format!("{scheme}://{name}:***@{host}"),
        None => value.to_owned(),
    }
}

/// Returns the key of an option in the file; `None` if it is not a setting.
fn key_of(argument: &Arg) -> Option<String> {
    let long = argument.get_long().filter(|long| !NOT_SETTINGS.contains(long))?;
    Some(long.replace('-', "_"))
}

fn is_flag(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::SetTrue)
}

/// Gives each option of `serve` an environment variable: `MARMOTA_LISTEN` for `--listen`.
pub(super) fn with_environment(parser: clap::Command) -> clap::Command {
    fn with_variable(argument: Arg) -> Arg {
        match key_of(&argument) {
            Some(key) if argument.get_env().is_none() => {
                argument.env(OsStr::from(format!("MARMOTA_{}", key.to_uppercase())))
            }
            _ => argument,
        }
    }
    let parser = parser.mut_args(with_variable);
    parser.mut_subcommand("serve", |serve| serve.mut_args(with_variable))
}

/// The settings of a file.
pub(in crate::command) struct Settings {
    /// Each key with its values and its place in the file.
    entries: Vec<Entry>,
}

struct Entry {
    key: String,
    values: Vec<String>,
    is_boolean: bool,
    /// `marmota.toml:3:1`.
    place: String,
}

impl Settings {
    /// Reads a file in TOML whose keys have booleans, numbers, texts or lists of texts.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::new(ErrorKind::NotFound, format!("cannot read the settings in {name}: {error}"))
        })?;
        let place = |byte: usize| {
            let before = text.get(..byte).unwrap_or_default();
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            format!("{name}:{}:{column}", before.matches('\n').count() + 1)
        };
        let document = Document::parse(&*text).map_err(|error| {
            let place = place(error.span().map_or(0, |span| span.start));
            Error::new(ErrorKind::Invalid, format!("{place}: {}", error.message()))
        })?;
        let mut entries = Vec::new();
        for (key, item) in document.iter() {
            let key_span = document.key(key).and_then(toml_edit::Key::span);
            let place = place(key_span.map_or(0, |span| span.start));
            let Some((values, is_boolean)) = values_of(item) else {
                let message = format!(
                    "{place}: `{key}` is a {}; a setting is a boolean, a number, a text or a list of \
                     texts",
                    item.type_name()
                );
                return Err(Error::new(ErrorKind::Invalid, message));
            };
            entries.push(Entry { key: key.to_owned(), values, is_boolean, place });
        }
        Ok(Self { entries })
    }

    /// Makes the settings defaults of the options with these names, in `serve` and, as far as they
    /// have them (`db`), in the other subcommands.
    pub(super) fn apply_to(&self, parser: clap::Command) -> Result<clap::Command> {
        let mut parser = parser;
        let keys: Vec<String> = parser.get_arguments().filter_map(key_of).collect();
        for entry in &self.entries {
            let known = parser.get_arguments().find(|one| key_of(one).as_ref() == Some(&entry.key));
            let Some(argument) = known else { return Err(entry.unknown(&keys)) };
            entry.check(argument)?;
        }
        let with_default = |argument: Arg| match self.of(&argument) {
            Some(entry) => entry.set(argument),
            None => argument,
        };
        parser = parser.mut_args(with_default);
        Ok(parser.mut_subcommands(|subcommand| subcommand.mut_args(with_default)))
    }

    fn of(&self, argument: &Arg) -> Option<&Entry> {
        let key = key_of(argument)?;
        self.entries.iter().find(|entry| entry.key == key)
    }
}

impl Entry {
    fn unknown(&self, keys: &[String]) -> Error {
        let Self { key, place, .. } = self;
        let similar = |known: &&String| strsim::jaro(key, known) > 0.8;
        let hint = match keys.iter().find(similar) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are: {}", keys.join(", ")),
        };
        Error::new(ErrorKind::Invalid, format!("{place}: there is no setting `{key}`; {hint}"))
    }

    /// Checks that the value is a boolean if and only if the option is a flag, and that it is valid.
    fn check(&self, argument: &Arg) -> Result<()> {
        let Self { key, values, is_boolean, place } = self;
        let refuse = |what: &str| {
            let message = format!("{place}: `{key}` = {}: {what}", values.join(","));
            Err(Error::new(ErrorKind::Invalid, message))
        };
        if is_flag(argument) != *is_boolean {
            return refuse(if *is_boolean {
                "must not be a boolean"
            } else {
                "must be true or false"
            });
        }
        let is_list = matches!(argument.get_action(), ArgAction::Append)
            || argument.get_value_delimiter().is_some();
        if values.len() > 1 && !is_list {
            return refuse("must be a single value");
        }
        let alone = clap::Command::new(key.clone()).no_binary_name(true).arg(
            argument
                .clone()
                .env(Resettable::<OsStr>::Reset)
                .default_value(Resettable::<OsStr>::Reset)
                .required(false),
        );
        let flag = argument.get_long().unwrap_or_default();
        let arguments = values.iter().map(|value| match is_boolean {
            true => format!("--{flag}"),
            false => format!("--{flag}={value}"),
        });
        let parsed = alone.try_get_matches_from(arguments);
        match parsed.map_err(|error| (error.kind(), error)) {
            // The other options are not there.
            Ok(_) | Err((clap::error::ErrorKind::MissingRequiredArgument, _)) => Ok(()),
            Err((_, error)) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                let text = error.to_string();
                let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
                refuse(cause.as_deref().unwrap_or(first))
            }
        }
    }

    fn set(&self, argument: Arg) -> Arg {
        match (self.is_boolean, self.values.first().map(String::as_str)) {
            (true, Some("false")) => argument,
            _ => argument.default_values(self.values.iter().cloned().map(OsStr::from)),
        }
    }
}

/// Returns the texts of a value, and true if it is a boolean; `None` if it is not a setting.
fn values_of(item: &Item) -> Option<(Vec<String>, bool)> {
    fn text(value: &Value) -> Option<String> {
        Some(match value {
            Value::String(text) => text.value().clone(),
            Value::Integer(number) => number.value().to_string(),
            Value::Float(number) => number.value().to_string(),
            _ => return None,
        })
    }
    match item.as_value()? {
        Value::Boolean(flag) => Some((vec![flag.value().to_string()], true)),
        Value::Array(array) => Some((array.iter().map(text).collect::<Option<_>>()?, false)),
        value => Some((vec![text(value)?], false)),
    }
}
