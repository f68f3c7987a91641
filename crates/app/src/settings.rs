//! The file of settings, `marmota.toml`: a key for each option of a subcommand.
//!
//! A value is taken from the command line, otherwise from the environment (`MARMOTA_LISTEN` for
//! `--listen`), otherwise from the file (`listen`), otherwise the default applies. The options are those
//! of clap's parser: an option that the subcommand gets later is a key without another line of code.

use std::path::Path;

use clap::builder::{BoolishValueParser, OsStr, PossibleValue, Resettable};
use clap::{Arg, ArgAction};
use marmota_model::{Error, ErrorKind, Result};
use toml_edit::{Document, Item, Value};

/// Options that are not settings: they name files with settings, or print something.
const NOT_SETTINGS: [&str; 4] = ["app", "config", "help", "version"];

/// Returns the key of an option in the file: its long name with `_` for `-`. `None` for `--help`,
/// `--version` and the options that name files of an application.
///
/// ```
/// use clap::Arg;
/// use marmota_app::settings::setting_key;
/// let argument = Arg::new("slow").long("slow-query-ms");
/// assert_eq!(setting_key(&argument).as_deref(), Some("slow_query_ms"));
/// ```
#[must_use]
pub fn setting_key(argument: &Arg) -> Option<String> {
    let long = argument.get_long().filter(|long| !NOT_SETTINGS.contains(long))?;
    Some(long.replace('-', "_"))
}

/// Returns true for an option without a value, which is a boolean in the file.
///
/// ```
/// use clap::{Arg, ArgAction};
/// use marmota_app::settings::is_flag;
/// assert!(is_flag(&Arg::new("auth").long("auth").action(ArgAction::SetTrue)));
/// ```
#[must_use]
pub fn is_flag(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::SetTrue)
}

/// Gives each option of a program and of its subcommand `serve` an environment variable:
/// `MARMOTA_LISTEN` for `--listen`. An option with a variable keeps it.
///
/// ```
/// use clap::{Arg, Command};
/// use marmota_app::settings::with_environment;
/// let serve = Command::new("serve").arg(Arg::new("listen").long("listen"));
/// let parser = with_environment(Command::new("shop").subcommand(serve));
/// let serve = parser.find_subcommand("serve").unwrap();
/// let listen = serve.get_arguments().find(|one| one.get_id() == "listen").unwrap();
/// assert_eq!(listen.get_env().unwrap(), "MARMOTA_LISTEN");
/// ```
#[must_use]
pub fn with_environment(parser: clap::Command) -> clap::Command {
    fn with_variable(argument: Arg) -> Arg {
        match setting_key(&argument) {
            Some(key) if argument.get_env().is_none() => {
                let variable = OsStr::from(format!("MARMOTA_{}", key.to_uppercase()));
                match is_flag(&argument) {
                    // `1`, `yes` and `on` are true as well.
                    true => argument.env(variable).value_parser(BoolishValueParser::new()),
                    false => argument.env(variable),
                }
            }
            _ => argument,
        }
    }
    let parser = parser.mut_args(with_variable);
    parser.mut_subcommand("serve", |serve| serve.mut_args(with_variable))
}

/// The settings of a file.
///
/// ```
/// use clap::{Arg, Command};
/// use marmota_app::settings::SettingsFile;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("marmota.toml");
/// std::fs::write(&path, "listen = \"127.0.0.1:9000\"")?;
/// let parser = Command::new("shop").arg(Arg::new("listen").long("listen"));
/// let parser = SettingsFile::read(&path)?.apply_to(parser)?;
/// let matches = parser.get_matches_from(["shop"]);
/// assert_eq!(matches.get_one::<String>("listen").unwrap(), "127.0.0.1:9000");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SettingsFile {
    /// Each key with its values and its place in the file.
    entries: Vec<Entry>,
}

/// A key of the file with its value.
#[derive(Debug)]
struct Entry {
    key: String,
    /// The value, or the values of a list, as texts.
    values: Vec<String>,
    /// True if the value is `true` or `false`.
    is_boolean: bool,
    /// `marmota.toml:3:1`.
    place: String,
}

impl SettingsFile {
    /// Reads a file in TOML whose keys have booleans, numbers, texts or lists of texts.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if it cannot be read, [`ErrorKind::Invalid`] with the line and column if it
    /// is not TOML or has other values.
    pub fn read(path: &Path) -> Result<Self> {
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
                    "{place}: `{key}` has the type {}; a setting is a boolean, a number, a text or a \
                     list of texts",
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
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the line and column of an unknown key or an invalid value.
    pub fn apply_to(&self, parser: clap::Command) -> Result<clap::Command> {
        let mut parser = parser;
        let keys: Vec<String> = parser.get_arguments().filter_map(setting_key).collect();
        for entry in &self.entries {
            let known =
                parser.get_arguments().find(|one| setting_key(one).as_ref() == Some(&entry.key));
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

    /// Returns the keys of the file.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| &*entry.key)
    }

    /// Returns the entry of an option.
    fn of(&self, argument: &Arg) -> Option<&Entry> {
        let key = setting_key(argument)?;
        self.entries.iter().find(|entry| entry.key == key)
    }
}

impl Entry {
    /// Returns the error for a key without an option.
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
        let allowed = argument.get_possible_values();
        let parsed = alone.try_get_matches_from(arguments);
        match parsed.map_err(|error| (error.kind(), error)) {
            // The other options are not there.
            Ok(_) | Err((clap::error::ErrorKind::MissingRequiredArgument, _)) => Ok(()),
            Err((clap::error::ErrorKind::InvalidValue, _)) if !allowed.is_empty() => {
                refuse(&format!("must be {}", alternatives(&allowed)))
            }
            Err((_, error)) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                let text = error.to_string();
                let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
                refuse(cause.as_deref().unwrap_or(first))
            }
        }
    }

    /// Makes the value the default of an option; `false` is the default of each flag.
    fn set(&self, argument: Arg) -> Arg {
        match (self.is_boolean, self.values.first().map(String::as_str)) {
            (true, Some("false")) => argument,
            _ => argument.default_values(self.values.iter().cloned().map(OsStr::from)),
        }
    }
}

/// Returns the permitted values of an option: `a, b or c`.
fn alternatives(values: &[PossibleValue]) -> String {
    let names: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => names.join(""),
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
