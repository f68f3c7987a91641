//! `marmota.toml`: a key for each option of `serve`, and `config`, which shows where each value is from.
//!
//! ```text
//! $ cat marmota.toml
//! listen = ["127.0.0.1:8080"]
//! auth = true
//! $ MARMOTA_LOG=info marmota config show --changed
//! listen  127.0.0.1:8080  marmota.toml
//! auth    true            marmota.toml
//! log     info            environment variable MARMOTA_LOG
//! ```
//!
//! `crates/app/src/settings.rs` reads the file. The subcommand shows what `serve` would use, without an
//! argument, so that a person who looks for the cause of a setting does not have to start the server.
//!
//! A value is taken from the command line, otherwise from the environment (`MARMOTA_LISTEN` for
//! `--listen`), otherwise from the file (`listen`), otherwise the default applies. The options are those
//! of clap's parser: an option that `serve` gets later is a key without another line of code.

use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{Arg, Args, FromArgMatches, Subcommand};
use marmota_app::settings::{is_flag, setting_key};
use serde_json::json;

use super::CurrentSettings;
use crate::command::serve::Serve;
use crate::command::{Command, Done, JsonOutput, aligned};

/// Shows and checks the settings of `serve`
///
/// A setting is taken from the command line, otherwise from the environment, otherwise from the file
/// of settings; otherwise its default applies.
#[derive(Args)]
pub(in crate::command) struct ConfigCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Checks the file and the environment, and does nothing
    ///
    /// An unknown key and an invalid value are reported with their line and column. Exits with 1 then.
    Check {
        #[command(flatten)]
        output: JsonOutput,
    },
    /// Prints each setting, its value, and where the value is from
    ///
    /// Passwords in URLs are printed as `***`.
    Show {
        /// Print only the settings that differ from their defaults
        #[arg(long)]
        changed: bool,
        #[command(flatten)]
        output: JsonOutput,
    },
}

impl ConfigCommand {
    /// Reads the settings as `serve` does, and prints them or their number.
    pub(in crate::command) fn run(&self, command: &Command) -> Done {
        let settings = current(command)?;
        match self.action {
            Action::Check { output } => {
                let count = settings.iter().filter(|one| one.is_changed).count();
                output.report(
                    || json!({ "settings": count }),
                    || match count {
                        0 => "All settings have their defaults.".to_owned(),
                        1 => "1 setting is valid.".to_owned(),
                        count => format!("{count} settings are valid."),
                    },
                )?;
            }
            Action::Show { changed, output } => {
                let shown = || settings.iter().filter(|one| !changed || one.is_changed);
                output.report(
                    || shown().map(Setting::to_json).collect(),
                    || {
                        aligned(shown().map(|Setting { key, value, source, .. }| {
                            [key.as_str(), value.as_str(), source.as_str()]
                        }))
                    },
                )?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A setting of `serve`.
struct Setting {
    /// The key in the file.
    key: String,
    /// The values, separated by commas; `-` without one.
    value: String,
    /// `default`, the name of the file, or the environment variable.
    source: String,
    /// True if the value is not the default.
    is_changed: bool,
}

impl Setting {
    /// Returns the setting as an object.
    fn to_json(&self) -> serde_json::Value {
        serde_json::json!({ "key": self.key, "value": self.value, "source": self.source })
    }
}

/// Returns the settings that `serve` would have now, without arguments.
fn current(command: &Command) -> std::result::Result<Vec<Setting>, Box<dyn std::error::Error>> {
    let plain = command.parser("marmota");
    let path = command.files.settings_path();
    let current =
        CurrentSettings::read(&plain, &["marmota".into()], path, command.files.config_name())?;
    let (parser, matches) = (current.parser(), current.matches());
    let file = current.file_name().to_owned();
    Serve::from_arg_matches(matches)?.check_settings(command)?;
    let setting = |argument: &Arg| {
        let id = argument.get_id().as_str();
        let key = setting_key(argument).unwrap_or_default();
        let differs = || {
            let before = plain.get_arguments().find(|plain| plain.get_id() == argument.get_id());
            before
                .is_some_and(|before| before.get_default_values() != argument.get_default_values())
        };
        let source = match matches.value_source(id) {
            Some(ValueSource::EnvVariable) => {
                let name = argument.get_env().unwrap_or_default().to_string_lossy();
                format!("environment variable {name}")
            }
            Some(ValueSource::DefaultValue) if current.has_key(&key) => file.clone(),
            _ => "default".to_owned(),
        };
        let is_changed = source != "default" && (source != file || differs());
        let values = matches.get_raw(id).into_iter().flatten();
        let values: Vec<String> =
            values.map(|value| without_password(&value.to_string_lossy())).collect();
        let value = match values.is_empty() {
            true if is_flag(argument) => "false".to_owned(),
            // The program has the defaults of these.
            true if key == "listen" => command.listen.to_owned(),
            true if key == "db" => command.db.to_owned(),
            true => "-".to_owned(),
            false => values.join(","),
        };
        Setting { key, value, source, is_changed }
    };
    Ok(parser
        .get_arguments()
        .filter(|argument| setting_key(argument).is_some())
        .map(setting)
        .collect())
}

/// Returns a URL with its password replaced by `***`.
fn without_password(value: &str) -> String {
    if value.starts_with("odbc:") {
        // What follows the password may be a part of it.
        let lower = value.to_ascii_lowercase();
        let ends = ["pwd=", "password="].map(|name| lower.find(name).map(|at| at + name.len()));
        return match ends.into_iter().flatten().min() {
            Some(end) => format!("{}***", &value[..end]),
            None => value.to_owned(),
        };
    }
    let Some((scheme, rest)) = value.split_once("://") else { return value.to_owned() };
    let Some((user, host)) = rest.split_once('@') else { return value.to_owned() };
    match user.split_once(':') {
        Some((name, _)) => format!("{scheme}://{name}:***@{host}"),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_urls_are_not_shown() {
        for (url, shown) in [
            ("postgres://ada:secret@db/app", "postgres://ada:***@db/app"),
            ("sqlite:data/app.db", "sqlite:data/app.db"),
            ("odbc:DSN=app;Pwd={se;cret};Server=db", "odbc:DSN=app;Pwd=***"),
            ("odbc:DSN=app", "odbc:DSN=app"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
