//! SIGHUP: reads the file of settings again, and applies what can change while the server runs. Other
//! settings are named, and apply after a restart. With an invalid file, all settings stay.
//!
//! ```text
//! Reloaded marmota.toml: log and rate_limit have changed; threads needs a restart.
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use clap::{Args, FromArgMatches};
use marmota_app::settings::setting_key;
use marmota_model::{Error, ErrorKind, Result};
use marmota_rest::LogLevels;

use super::Serve;
use super::layers::{LayerOptions, LayerSlot};
use super::operators::Watch;
use crate::Log;
use crate::command::application::{CurrentSettings, SettingsSource};
use crate::command::{Command, notice};

/// The settings of the rate limit.
const RATE_LIMIT: [&str; 2] = ["rate_limit", "rate_limit_burst"];
/// The filter of the log.
const LOG: &str = "log";

/// The settings in use, with their keys in the file.
type Values = BTreeMap<String, String>;

/// A running server, as far as a reload changes it.
pub(super) struct Reload {
    source: SettingsSource,
    in_use: Mutex<Values>,
    layers: LayerSlot,
    /// The log of the program, which is written to its end when the program drops it.
    log: Option<Weak<Log>>,
}

impl Reload {
    /// Returns the reload of a program with a file of settings; `None` for other programs.
    pub(super) fn new(command: &Command, layers: &LayerSlot, watch: &Watch) -> Option<Self> {
        let source = command.files.settings_source(command)?;
        let in_use = Mutex::new(values(&source.read().ok()?));
        Some(Self {
            source,
            in_use,
            layers: layers.clone(),
            log: watch.log.as_ref().map(Arc::downgrade),
        })
    }

    /// Applies the settings, and prints which have changed.
    pub(super) fn run(&self) {
        match self.apply() {
            Ok(line) => {
                log::info!(target: "marmota", "SIGHUP: {line}");
                notice(line);
            }
            Err(error) => {
                log::error!(target: "marmota", "SIGHUP: the settings stay as they are: {error}");
            }
        }
    }

    /// Applies the settings; returns a line about the changes.
    fn apply(&self) -> Result<String> {
        let settings = self.source.read()?;
        let new = values(&settings);
        let mut in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = |key: &str| new.get(key) != in_use.get(key);
        let serve = Serve::from_arg_matches(settings.matches())
            .map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
        let layers = serve.layers.layers()?;
        if let Some(log) = self.log.as_ref().and_then(Weak::upgrade).filter(|_| changed(LOG)) {
            log.set_filter(&serve.operators.log)?;
        }
        let keep_rate_limit = !RATE_LIMIT.into_iter().any(changed);
        self.layers.set(layers, keep_rate_limit);
        let (applied, restart): (Vec<&String>, Vec<&String>) =
            new.keys().filter(|key| changed(key)).partition(|key| self.is_reloaded(key));
        let name = settings.file_name();
        let mut line = match &*applied {
            [] => format!("Reloaded {name}: no setting that can be reloaded has changed"),
            [one] => format!("Reloaded {name}: {one} has changed"),
            several => format!("Reloaded {name}: {} have changed", listed(several)),
        };
        match &*restart {
            [] => {}
            [one] => line.push_str(&format!("; {one} needs a restart")),
            several => line.push_str(&format!("; {} need a restart", listed(several))),
        }
        line.push('.');
        let applied: Vec<String> = applied.into_iter().cloned().collect();
        for key in applied {
            if let Some(value) = new.get(&key) {
                in_use.insert(key, value.clone());
            }
        }
        Ok(line)
    }

    /// Returns true for a setting that is applied while the server runs.
    fn is_reloaded(&self, key: &str) -> bool {
        let layers = LayerOptions::augment_args(clap::Command::new("layers"));
        let is_layer = layers.get_arguments().filter_map(setting_key).any(|layer| layer == key);
        is_layer || (key == LOG && self.log.is_some())
    }
}

/// Returns all settings as texts.
fn values(settings: &CurrentSettings) -> Values {
    let matches = settings.matches();
    let value = |argument: &clap::Arg| {
        let raw = matches.get_raw(argument.get_id().as_str()).into_iter().flatten();
        let texts: Vec<_> = raw.map(|text| text.to_string_lossy()).collect();
        Some((setting_key(argument)?, texts.join(",")))
    };
    settings.parser().get_arguments().filter_map(value).collect()
}

/// Returns `a, b and c`.
fn listed(keys: &[&String]) -> String {
    let Some((last, others)) = keys.split_last() else { return String::new() };
    let others: Vec<&str> = others.iter().map(|key| key.as_str()).collect();
    format!("{} and {last}", others.join(", "))
}
