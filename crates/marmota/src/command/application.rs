//! The files of an application without Rust code: its tables (`app.toml`) and settings
//! (`marmota.toml`).
//!
//! | file | named by | read |
//! |---|---|---|
//! | tables | `--app`, `MARMOTA_APP`, or the default name if it exists | when a store is opened, once |
//! | settings | `--config`, `MARMOTA_CONFIG`, or the default name if it exists | before arguments are parsed |
//!
//! The settings become defaults of options. `client.rs`, `config.rs`, `new.rs` and `schema.rs` are the subcommands for the
//! files.

mod adopt;
mod client;
mod config;
mod new;
mod schema;

use std::cell::{OnceCell, RefCell};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::{Arg, ArgMatches};
use marmota_app::settings::{SettingsFile, with_environment};
use marmota_app::{AppFile, AppGroup};
use marmota_auth::{Auth, Settings};
use marmota_model::{Error, ErrorKind, Result};
use marmota_store::Store;

use super::Command;

pub(super) use self::client::Client;
pub(super) use self::config::ConfigCommand;
pub(super) use self::new::New;
pub(super) use self::schema::SchemaCommand;

/// The id and long name of the option with the file of tables.
const APP: &str = "app";
/// The id and long name of the option with the file of settings.
const CONFIG: &str = "config";
/// Groups that are not rows: every user, and callers without a credential.
const EVERYONE: &str = "everyone";
const ANONYMOUS: &str = "anonymous";

/// The names of the files, and the file of this run.
#[derive(Default)]
pub(super) struct ApplicationFiles {
    /// The default names of both files; `None` for a program without them.
    names: Option<[&'static str; 2]>,
    /// The file of settings of this run.
    settings: OnceCell<Option<PathBuf>>,
    /// The arguments of this run.
    arguments: OnceCell<Vec<OsString>>,
    /// The file of tables of this run.
    path: OnceCell<Option<PathBuf>>,
    /// Its content.
    app: RefCell<Option<Rc<AppFile>>>,
}

impl ApplicationFiles {
    /// Creates the description of a program with files of these names.
    pub(super) const fn new(app: &'static str, config: &'static str) -> Self {
        Self {
            names: Some([app, config]),
            settings: OnceCell::new(),
            arguments: OnceCell::new(),
            path: OnceCell::new(),
            app: RefCell::new(None),
        }
    }

    /// Adds `--app` and `--config`, which all subcommands have.
    pub(super) fn add_arguments(&self, parser: clap::Command) -> clap::Command {
        let Some([app, config]) = self.names else {
            return ["new", "schema", "config"].into_iter().fold(parser, |parser, name| {
                parser.mut_subcommand(name, |subcommand| subcommand.hide(true))
            });
        };
        let file = |id: &'static str, env: &'static str, help: String| {
            Arg::new(id)
                .long(id)
                .value_name("FILE")
                .env(env)
                .global(true)
                .value_parser(clap::value_parser!(PathBuf))
                .help_heading("Application")
                .help(help)
        };
        let app_help = format!("The file with the tables and groups. Default: {app}, if it exists");
        let config_help = format!("The file with the settings. Default: {config}, if it exists");
        parser.arg(file(APP, "MARMOTA_APP", app_help)).arg(file(
            CONFIG,
            "MARMOTA_CONFIG",
            config_help,
        ))
    }

    /// Adds environment variables to all options of `serve`, and the settings of the file as their
    /// defaults.
    pub(super) fn configure(
        &self,
        parser: clap::Command,
        arguments: &[OsString],
    ) -> Result<clap::Command> {
        let Some([_, default]) = self.names else { return Ok(parser) };
        let path = match settings_file(&parser, arguments, default) {
            Some(path) => path,
            // Help and the version do not need a valid file.
            None => return Ok(with_environment(parser)),
        };
        // A program parses its arguments once.
        let _ = self.settings.set(path);
        let _ = self.arguments.set(arguments.to_vec());
        self.with_settings(parser)
    }

    /// Adds the environment variables of the settings, if the program has a file of them.
    pub(super) fn with_variables(&self, parser: clap::Command) -> clap::Command {
        if self.has_settings() { with_environment(parser) } else { parser }
    }

    /// Returns true for a program with a file of settings.
    pub(super) const fn has_settings(&self) -> bool {
        self.names.is_some()
    }

    /// Returns the source of this run's settings; `None` for a program without such a file.
    pub(super) fn settings_source(&self, command: &Command) -> Option<SettingsSource> {
        let [_, default] = self.names?;
        let arguments = self.arguments.get()?.clone();
        Some(SettingsSource { parser: command.parser("marmota"), arguments, default })
    }

    /// Adds environment variables, and the settings of this run's file.
    fn with_settings(&self, parser: clap::Command) -> Result<clap::Command> {
        let parser = with_environment(parser);
        match self.settings_path() {
            None => Ok(parser),
            Some(path) => SettingsFile::read(path)?.apply_to(parser),
        }
    }

    /// Returns the path of the file of settings, if there is one.
    fn settings_path(&self) -> Option<&Path> {
        self.settings.get()?.as_deref()
    }

    /// Finds the file of tables: the one that is named, or the default if it exists.
    pub(super) fn locate(&self, matches: &ArgMatches) {
        let Some([default, _]) = self.names else { return };
        let path = named(matches, APP)
            .or_else(|| Path::new(default).exists().then(|| PathBuf::from(default)));
        // A program parses its arguments once.
        let _ = self.path.set(path);
    }

    /// Returns the path of the file of tables, if there is one.
    pub(super) fn path(&self) -> Option<&Path> {
        self.path.get()?.as_deref()
    }

    /// Returns the default name of the file of tables.
    fn default_name(&self) -> &'static str {
        self.names.map_or("app.toml", |[app, _]| app)
    }

    /// Returns the default name of the file of settings.
    fn config_name(&self) -> &'static str {
        self.names.map_or("marmota.toml", |[_, config]| config)
    }

    /// Returns the file of tables, which is read once.
    pub(super) fn app(&self) -> Result<Option<Rc<AppFile>>> {
        let Some(path) = self.path() else { return Ok(None) };
        if let Some(app) = &*self.app.borrow() {
            return Ok(Some(Rc::clone(app)));
        }
        let app = Rc::new(AppFile::read(path)?);
        *self.app.borrow_mut() = Some(Rc::clone(&app));
        Ok(Some(app))
    }

    /// Checks all of a file that can be checked without its database: relations and rules too, by a
    /// store in memory.
    ///
    /// # Errors
    /// The first fault.
    #[allow(clippy::unused_self, reason = "callers need no path to this module")]
    pub(super) fn check(&self, app: &AppFile) -> Result<()> {
        let builder = marmota_auth::models(app.add_to(crate::open("memory:")?));
        let store = builder.models_alone().open()?;
        app.check_groups(&store)
    }

    /// Replaces the content of the file of tables for this run. Returns the previous content.
    pub(super) fn replace_app(&self, app: Option<Rc<AppFile>>) -> Option<Rc<AppFile>> {
        self.app.replace(app)
    }

    /// Opens the accounts of a store, with the groups of the file of tables.
    ///
    /// The file is the only source of the groups that it names; other groups, which were added
    /// through the API, are not changed.
    ///
    /// # Errors
    /// A grant that is invalid, and errors of the store.
    pub(super) fn open_accounts(&self, store: &Store, settings: Settings) -> Result<Auth> {
        let Some(app) = self.app()? else { return Auth::new(store, settings) };
        app.check_groups(store)?;
        let groups = app.groups();
        let grants = |name: &str| {
            let group = groups.iter().find(|group| group.name == name);
            group.map(|group| group.grants.clone()).unwrap_or_default()
        };
        let base = settings.everyone(grants(EVERYONE)).anonymous(grants(ANONYMOUS));
        let settings = app.step_up().into_iter();
        let settings = settings.fold(base, |settings, (table, time)| settings.step_up(table, time));
        let settings = match app.profile() {
            Some(table) => settings.profile(table),
            None => settings,
        };
        let auth = Auth::new(store, settings)?;
        // The primary writes its groups.
        if store.is_replica() {
            return Ok(auth);
        }
        let stored = auth.groups()?;
        for AppGroup { name, grants } in &groups {
            let is_stored = stored.iter().any(|one| one.name == *name && one.grants.0 == *grants);
            if name != EVERYONE && name != ANONYMOUS && !is_stored {
                auth.set_group(name, grants)?;
            }
        }
        Ok(auth)
    }
}

/// Returns the path of the file of settings, if there is one. `None` if the arguments ask for help or
/// the version.
fn settings_file(
    parser: &clap::Command,
    arguments: &[OsString],
    default: &str,
) -> Option<Option<PathBuf>> {
    // `--config` has to be known before the other arguments have their defaults.
    let first = match parser.clone().ignore_errors(true).try_get_matches_from(arguments) {
        Ok(matches) => Some(matches),
        Err(error) if !error.use_stderr() => return None,
        Err(_) => None,
    };
    let path = first.as_ref().and_then(|matches| named(matches, CONFIG));
    Some(path.or_else(|| Path::new(default).exists().then(|| PathBuf::from(default))))
}

/// The sources of the settings of `serve`, which can be read again while the server runs.
pub(super) struct SettingsSource {
    /// The parser, without the settings of the file.
    parser: clap::Command,
    arguments: Vec<OsString>,
    /// The default name of the file.
    default: &'static str,
}

/// The settings of `serve`, as they are read at one time.
pub(super) struct CurrentSettings {
    parser: clap::Command,
    matches: ArgMatches,
    name: String,
    /// The keys of the file.
    keys: Vec<String>,
}

impl SettingsSource {
    /// Reads the arguments, the environment and the file.
    ///
    /// # Errors
    /// Those of the file, and settings that exclude each other.
    pub(super) fn read(&self) -> Result<CurrentSettings> {
        let path = settings_file(&self.parser, &self.arguments, self.default).flatten();
        CurrentSettings::read(&self.parser, &self.arguments, path.as_deref(), self.default)
    }
}

impl CurrentSettings {
    /// Reads the arguments, the environment and the file at `path`.
    ///
    /// # Errors
    /// Those of the file, and settings that exclude each other.
    fn read(
        parser: &clap::Command,
        arguments: &[OsString],
        path: Option<&Path>,
        default: &str,
    ) -> Result<Self> {
        let name = path.unwrap_or_else(|| Path::new(default)).display().to_string();
        let parser = with_environment(parser.clone());
        let (parser, keys) = match path {
            None => (parser, Vec::new()),
            Some(path) => {
                let file = SettingsFile::read(path)?;
                let keys = file.keys().map(str::to_owned).collect();
                (file.apply_to(parser)?, keys)
            }
        };
        let matches = parser.clone().try_get_matches_from(arguments).map_err(|error| {
            // Clap's text has a usage line, which is about arguments.
            let text = error.to_string();
            let text = text.split("\n\n").next().unwrap_or(&text);
            let text = text.trim_start_matches("error: ");
            Error::new(ErrorKind::Invalid, format!("{name} or the environment: {text}"))
        })?;
        Ok(Self { parser, matches, name, keys })
    }

    /// Returns the parser, with the settings as defaults.
    pub(super) const fn parser(&self) -> &clap::Command {
        &self.parser
    }

    /// Returns the values of `serve`.
    pub(super) fn matches(&self) -> &ArgMatches {
        match self.matches.subcommand() {
            Some(("serve", matches)) => matches,
            _ => &self.matches,
        }
    }

    /// Returns true if the file has this key.
    fn has_key(&self, key: &str) -> bool {
        self.keys.iter().any(|known| known == key)
    }

    /// Returns the name of the file.
    pub(super) fn file_name(&self) -> &str {
        &self.name
    }
}

/// Returns the value of an option, which may be given before or after the subcommand.
fn named(matches: &ArgMatches, id: &str) -> Option<PathBuf> {
    let own = matches.try_get_one::<PathBuf>(id).ok().flatten().cloned();
    own.or_else(|| matches.subcommand().and_then(|(_, matches)| named(matches, id)))
}
