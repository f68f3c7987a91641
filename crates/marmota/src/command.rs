//! The command line of a program: the subcommands that a service needs in addition to serving, from
//! one call. `mybin serve`, `mybin migrate` and so on do for a program's own models what the
//! `marmota` program does for its demo models.
//!
//! This file contains the public type and the parser; each subcommand has its own file.

mod account;
#[cfg(feature = "app")]
mod application;
mod background;
mod backup;
mod migrate;
mod moving;
mod output;
mod program;
#[cfg(feature = "replication")]
mod replicate;
mod restore;
mod rows;
mod serve;
#[cfg(feature = "app")]
mod server_api;

use std::ffi::OsString;
use std::fmt;
use std::process::ExitCode;

pub use clap;
use clap::{ArgMatches, Args, FromArgMatches, Subcommand};
use marmota_http::Router;
use marmota_model::Result;
use marmota_store::private_file::have_folder;
use marmota_store::{Store, StoreBuilder};
pub use output::{JsonOutput, OUTPUT_CLOSED_CODE, OutputError, aligned, complain, notice, report};

/// The result of a subcommand: an exit code, or an error that is printed before the program exits
/// with code 1.
pub type Done = std::result::Result<ExitCode, Box<dyn std::error::Error>>;

/// A program with subcommands for its models.
///
/// | exit code | meaning |
/// |---|---|
/// | 0 | success |
/// | 1 | failure; the error is on stderr |
/// | 2 | invalid arguments |
/// | 3 | `migrate --dry-run`: changes are pending |
/// | 4 | `migrate --dry-run`: a change would be refused |
/// | 141 | standard output was closed before a report was printed |
pub struct Command {
    models: Models,
    about: &'static str,
    version: &'static str,
    commit: Option<&'static str>,
    db: &'static str,
    listen: &'static str,
    seed: Seed,
    /// `None`: REST over all models.
    routes: Option<Routes>,
    greeting: Greeting,
    own: Vec<(clap::Command, Own)>,
    /// The names of the files with tables and settings, and what this run has read from them.
    #[cfg(feature = "app")]
    files: application::ApplicationFiles,
}

type Models = Box<dyn Fn(&str) -> Result<StoreBuilder>>;
type Seed = Box<dyn Fn(&Store) -> Result<()>>;
type Routes = Box<dyn Fn(&Store) -> Router>;
type Greeting = Box<dyn Fn(&str) -> String>;
type Own = Box<dyn Fn(&ArgMatches) -> Done>;

/// The arguments that all subcommands with a database share.
#[derive(Args, Clone)]
struct Database {
    /// The database: sqlite:FILE, sqlite::memory:, memory:, memory:FILE,
    /// postgres://USER:PASSWORD@HOST/DATABASE, or the same with mariadb: or mongodb:
    #[arg(long, value_name = "URL", env = "MARMOTA_DB")]
    db: Option<String>,
}

#[derive(Subcommand)]
enum Sub {
    Serve(Box<serve::Serve>),
    Migrate(migrate::Migrate),
    Backup(backup::Backup),
    Move(moving::Move),
    Restore(restore::Restore),
    Job(background::Job),
    Webhook(background::Webhook),
    #[cfg(feature = "mcp")]
    Mcp(background::Mcp),
    User(account::User),
    Group(account::Group),
    Key(account::Key),
    Completions(program::Completions),
    Doctor(program::Doctor),
    #[command(name = "healthcheck")]
    HealthCheck(program::HealthCheck),
    DeployFiles(program::DeployFiles),
    Man(program::Man),
    Version(program::Version),
    Export(rows::Export),
    Import(rows::Import),
    #[cfg(feature = "replication")]
    Promote(replicate::Promote),
    #[cfg(feature = "app")]
    New(application::New),
    #[cfg(feature = "app")]
    Schema(application::SchemaCommand),
    #[cfg(feature = "app")]
    Config(application::ConfigCommand),
    #[cfg(feature = "app")]
    Client(application::Client),
}

/// Runs a program with its command-line arguments. `models` adds the program's models to the store
/// at a URL. See [`Command`] for more options.
///
/// ```no_run
/// use marmota::prelude::*;
///
/// #[derive(Model)]
/// struct Person {
///     id: i64,
///     name: String,
/// }
///
/// fn main() -> std::process::ExitCode {
///     marmota::command::run(|url| Ok(marmota::open(url)?.model::<Person>()))
/// }
/// ```
pub fn run(models: impl Fn(&str) -> Result<StoreBuilder> + 'static) -> ExitCode {
    Command::new(models).run()
}

impl Command {
    /// Creates a program. `models` adds the program's models to the store at a URL.
    ///
    /// ```
    /// let program = marmota::command::Command::new(marmota::open);
    /// # let _ = program;
    /// ```
    #[must_use]
    pub fn new(models: impl Fn(&str) -> Result<StoreBuilder> + 'static) -> Self {
        Self {
            models: Box::new(models),
            about: "A data service",
            version: "",
            commit: None,
            db: "sqlite:data/marmota.db",
            listen: "127.0.0.1:8080",
            seed: Box::new(|_| Ok(())),
            routes: None,
            greeting: Box::new(|url| format!("Serves {url}/api (Ctrl-C ends it).")),
            own: Vec::new(),
            #[cfg(feature = "app")]
            files: application::ApplicationFiles::default(),
        }
    }

    /// Sets the one-line description of the program in its help. Default: `A data service`.
    ///
    /// ```
    /// let program = marmota::command::Command::new(marmota::open).about("People and their notes");
    /// # let _ = program;
    /// ```
    #[must_use]
    pub const fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// Sets the program's version, for `-V` and for `--version`, which also prints the enabled
    /// features and the version of SQLite. Default: no `--version`.
    ///
    /// ```
    /// let program = marmota::command::Command::new(marmota::open).version(env!("CARGO_PKG_VERSION"));
    /// # let _ = program;
    /// ```
    #[must_use]
    pub const fn version(mut self, version: &'static str) -> Self {
        self.version = version;
        self
    }

    /// Sets the commit of the program's source, which `version --verbose` prints. Default: none.
    ///
    /// ```
    /// // `PROGRAM_COMMIT=$(git rev-parse HEAD) cargo build`
    /// let commit = option_env!("PROGRAM_COMMIT");
    /// let program = marmota::command::Command::new(marmota::open).commit(commit);
    /// # let _ = program;
    /// ```
    #[must_use]
    pub const fn commit(mut self, commit: Option<&'static str>) -> Self {
        self.commit = commit;
        self
    }

    /// Sets the URL of the database that is used if neither `--db` nor the environment variable
    /// `MARMOTA_DB` is set. Default: `sqlite:data/marmota.db`. Its folder is created if it is missing.
    ///
    /// ```
    /// let program = marmota::command::Command::new(marmota::open).db("sqlite:data/people.db");
    /// # let _ = program;
    /// ```
    #[must_use]
    pub const fn db(mut self, url: &'static str) -> Self {
        self.db = url;
        self
    }

    /// Sets the address where `serve` listens without `--listen`. Default: `127.0.0.1:8080`.
    ///
    /// ```
    /// let program = marmota::command::Command::new(marmota::open).listen("127.0.0.1:9000");
    /// # let _ = program;
    /// ```
    #[must_use]
    pub const fn listen(mut self, address: &'static str) -> Self {
        self.listen = address;
        self
    }

    /// Sets a function that `serve` calls after it has opened the store, for example to insert the
    /// first rows. It is called at each start.
    ///
    /// ```
    /// let program = marmota::command::Command::new(marmota::open).seed(|store| {
    ///     if store.registry().tables().is_empty() {
    ///         println!("the program has no models");
    ///     }
    ///     Ok(())
    /// });
    /// # let _ = program;
    /// ```
    #[must_use]
    pub fn seed(mut self, seed: impl Fn(&Store) -> Result<()> + 'static) -> Self {
        self.seed = Box::new(seed);
        self
    }

    /// Sets the routes of `serve`. Default: REST over all models, which are also served as a store
    /// for other processes.
    ///
    /// ```
    /// use marmota::command::Command;
    /// use marmota::http::Router;
    /// use marmota::rest;
    ///
    /// let program = Command::new(marmota::open)
    ///     .routes(|store| Router::new().nest("/v1", rest::api(store)));
    /// # let _ = program;
    /// ```
    #[must_use]
    pub fn routes(mut self, routes: impl Fn(&Store) -> Router + 'static) -> Self {
        self.routes = Some(Box::new(routes));
        self
    }

    /// Returns the program's routes, or REST and the remote store if it has none.
    fn routes_of(&self, store: &Store, api: impl Fn(&Store) -> marmota_rest::Api) -> Router {
        match &self.routes {
            Some(routes) => routes(store),
            None => {
                let routes = api(store).router();
                #[cfg(feature = "remote")]
                let routes = routes.nest("", marmota_remote::Service::new(store).router());
                routes
            }
        }
    }

    /// Sets the text that `serve` prints once it listens. The function gets the URL for clients,
    /// for example `http://127.0.0.1:8080`.
    ///
    /// ```
    /// let program = marmota::command::Command::new(marmota::open).greeting(|url| format!("People: {url}/api/person"));
    /// # let _ = program;
    /// ```
    #[must_use]
    pub fn greeting(mut self, greeting: impl Fn(&str) -> String + 'static) -> Self {
        self.greeting = Box::new(greeting);
        self
    }

    /// Reads the tables and groups from a file, `app.toml` for example, and the settings of `serve`
    /// from another, `marmota.toml` for example, if they are in the current folder. The options
    /// `--app` and `--config`, and the environment variables `MARMOTA_APP` and `MARMOTA_CONFIG`, name
    /// other files.
    ///
    /// A file of tables replaces the program's models and first rows (`seed`). A program that has both
    /// adds the tables of a file itself: [`AppFile::add_to`](crate::app::AppFile::add_to). The
    /// subcommands `new`, `schema` and `config` work on these files. Default: no files.
    ///
    /// ```
    /// let program = marmota::command::Command::new(marmota::open)
    ///     .application_files("app.toml", "marmota.toml");
    /// # let _ = program;
    /// ```
    #[cfg(feature = "app")]
    #[must_use]
    pub fn application_files(mut self, app: &'static str, config: &'static str) -> Self {
        self.files = application::ApplicationFiles::new(app, config);
        self
    }

    /// Adds a custom subcommand.
    ///
    /// ```
    /// use marmota::command::{Command, clap};
    /// let program = Command::new(marmota::open)
    ///     .subcommand(clap::Command::new("hello").about("Says hello"), |_| {
    ///         marmota::command::report("Hello")?;
    ///         Ok(std::process::ExitCode::SUCCESS)
    ///     });
    /// assert_eq!(program.run_with(["program", "hello"]), std::process::ExitCode::SUCCESS);
    /// ```
    #[must_use]
    pub fn subcommand(
        mut self,
        command: clap::Command,
        run: impl Fn(&ArgMatches) -> Done + 'static,
    ) -> Self {
        self.own.push((command, Box::new(run)));
        self
    }

    /// Runs the program with the arguments of the process. An error is printed to stderr.
    #[must_use]
    pub fn run(&self) -> ExitCode {
        self.run_with(std::env::args_os())
    }

    /// Runs the program with these arguments; the first is its name.
    #[must_use]
    pub fn run_with(&self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> ExitCode {
        let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
        let name = arguments.first().map_or_else(|| "marmota".to_owned(), program_name);
        let parser = self.parser(&name);
        #[cfg(feature = "app")]
        let parser = match self.files.configure(parser, &arguments) {
            Ok(parser) => parser,
            Err(error) => return output::end_of(&name, &error),
        };
        let matches = match parser.try_get_matches_from(arguments) {
            Ok(matches) => matches,
            Err(error) => {
                // If printing fails too, only the exit code reports the error.
                let _ = error.print();
                return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
            }
        };
        self.dispatch(&matches).unwrap_or_else(|error| output::end_of(&name, &*error))
    }

    /// Returns the parser of the command line of a program with this name, with all subcommands: for
    /// tests and documents about the program.
    ///
    /// ```
    /// let program = marmota::command::Command::new(marmota::open);
    /// let parser = program.parser("people");
    /// assert!(parser.get_subcommands().any(|one| one.get_name() == "migrate"));
    /// ```
    #[must_use]
    pub fn parser(&self, name: &str) -> clap::Command {
        // `serve` is the default subcommand: the program accepts its arguments too.
        let parser = serve::Serve::augment_args(clap::Command::new(name.to_owned()));
        let parser = Sub::augment_subcommands(parser)
            .about(self.about)
            .subcommand_required(false)
            .args_conflicts_with_subcommands(true);
        let parser = match self.version {
            "" => parser,
            version => parser.version(version).long_version(program::long(version, self.commit)),
        };
        let parser = parser.subcommands(self.own.iter().map(|(command, _)| command.clone()));
        #[cfg(feature = "app")]
        let parser = self.files.add_arguments(parser);
        parser
    }

    /// Runs the selected subcommand. Custom ones come first, so that they can replace the others.
    fn dispatch(&self, matches: &ArgMatches) -> Done {
        let own = matches.subcommand().and_then(|(name, matches)| {
            let (_, run) = self.own.iter().find(|(command, _)| command.get_name() == name)?;
            Some((run, matches))
        });
        if let Some((run, matches)) = own {
            return run(matches);
        }
        #[cfg(feature = "app")]
        self.files.locate(matches);
        match matches.subcommand() {
            None => serve::Serve::from_arg_matches(matches)?.run(self),
            Some(_) => match Sub::from_arg_matches(matches)? {
                Sub::Serve(serve) => serve.run(self),
                Sub::Migrate(migrate) => migrate.run(self),
                Sub::Backup(backup) => backup.run(self),
                Sub::Move(moving) => moving.run(self),
                Sub::Restore(restore) => restore.run(self),
                Sub::Job(job) => job.run(self),
                Sub::Webhook(webhook) => webhook.run(self),
                #[cfg(feature = "mcp")]
                Sub::Mcp(mcp) => mcp.run(self),
                Sub::User(user) => user.run(self),
                Sub::Group(group) => group.run(self),
                Sub::Key(key) => key.run(self),
                Sub::Completions(completions) => completions.run(self),
                Sub::Doctor(doctor) => doctor.run(self),
                Sub::HealthCheck(check) => check.run(self),
                Sub::DeployFiles(files) => files.run(self),
                Sub::Man(man) => man.run(self),
                Sub::Version(version) => version.run(self),
                Sub::Export(export) => export.run(self),
                Sub::Import(import) => import.run(self),
                #[cfg(feature = "replication")]
                Sub::Promote(promote) => promote.run(self),
                #[cfg(feature = "app")]
                Sub::New(new) => new.run(self),
                #[cfg(feature = "app")]
                Sub::Schema(schema) => schema.run(self),
                #[cfg(feature = "app")]
                Sub::Config(config) => config.run(self),
                #[cfg(feature = "app")]
                Sub::Client(client) => client.run(self),
            },
        }
    }

    /// Returns the URL from the arguments, or the program's default.
    fn url<'u>(&'u self, database: &'u Database) -> &'u str {
        database.db.as_deref().unwrap_or(self.db)
    }

    /// Returns the greeting of an application with a file of tables; `None` for the program's models.
    #[allow(clippy::unnecessary_wraps, clippy::unused_self, reason = "without the feature `app`")]
    fn app_greeting(&self) -> Result<Option<Greeting>> {
        #[cfg(feature = "app")]
        if self.files.app()?.is_some() {
            return Ok(Some(Box::new(|url| format!("Serves {url}/api (Ctrl-C ends it)."))));
        }
        Ok(None)
    }

    /// Returns the builder of the store at a URL, with the program's models.
    fn builder(&self, url: &str) -> Result<StoreBuilder> {
        // `serve` adds the durability to the URL.
        if url.split('?').next() == self.db.split('?').next() {
            have_default_folder(url)?;
        }
        #[cfg(feature = "app")]
        if let Some(app) = self.files.app()? {
            return Ok(app.add_to(crate::open(url)?));
        }
        (self.models)(url)
    }
}

/// Creates the folder of the default database, such as `data`. A folder that the user names must
/// exist.
fn have_default_folder(url: &str) -> Result<()> {
    let path = url.strip_prefix("sqlite:").or_else(|| url.strip_prefix("memory:"));
    match path.and_then(|path| path.split('?').next()) {
        None | Some("" | ":memory:") => Ok(()),
        Some(path) => have_folder(path.strip_prefix("//").unwrap_or(path).as_ref(), true),
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command").field("about", &self.about).finish_non_exhaustive()
    }
}

/// Returns the name of the running program, for hints.
fn own_name() -> String {
    std::env::args_os().next().map_or_else(|| "marmota".to_owned(), |path| program_name(&path))
}

/// Returns the program's name: the stem of the file that was started.
fn program_name(path: &OsString) -> String {
    let name = std::path::Path::new(path).file_stem().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
