//! Changes of the tables while the program serves.
//!
//! The main thread executes them, one after the other: it has the database and the routes. Requests
//! of clients wait meanwhile (`RouteChanges`), and no connection is closed:
//!
//! ```text
//! check the file, plan the steps     requests are answered
//! wait for the replication's target  requests are answered
//! stop what works in the background  requests are answered
//! pause                              requests in progress end, new ones wait
//! close the store, open it again     the engine executes the steps
//! write the file                     a rename; it was written next to its place before
//! resume with new routes             the requests that waited are answered
//! ```
//!
//! If the database refuses a step, it is opened with the previous tables, and the file stays as it
//! is. Live queries end when the store is closed; their clients connect again and continue.
//!
//! `moving.rs` replaces the database by another one.

mod moving;

use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use marmota_app::{AppFile, AppFormat};
use marmota_http::{RouteChanges, RunningServer};
use marmota_model::text::counted;
use marmota_model::{Error, ErrorKind, Result, Timestamp};
use marmota_store::pair::PairRole;
use marmota_store::plan::Destructive;
use marmota_store::private_file;

use self::moving::LiveMove;
use super::database::OpenDatabase;
use super::editing::{AppChange, AppChanged, AppRequest, AppText, ServeEvent, steps_of, tag_of};
use super::options::Serve;
use super::routes::RouteParts;

/// The time for requests in progress to end. Those that take longer fail when the store is closed.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server whose tables and database can be changed.
pub(super) struct LiveServer<'a> {
    pub(super) serve: &'a Serve,
    pub(super) parts: &'a RouteParts<'a>,
    pub(super) changes: RouteChanges,
    pub(super) events: Sender<ServeEvent>,
    pub(super) database: OpenDatabase,
    /// The role of the database in a live move that this server has begun.
    pub(super) role: Option<PairRole>,
    pub(super) live_move: Option<LiveMove>,
    /// The latest change by the API.
    pub(super) latest: Option<LatestChange>,
}

/// A change that was made by the API.
pub(super) struct LatestChange {
    /// The name of the administrator.
    by: String,
    at: Timestamp,
    /// The entity tag of the file after it.
    tag: String,
}

impl LiveServer<'_> {
    /// Serves until the server ends. Returns the database, which is open.
    ///
    /// # Errors
    /// The error that ended the server, or that of a database that cannot be opened again.
    pub(super) fn run(
        mut self,
        running: RunningServer,
        received: &Receiver<ServeEvent>,
    ) -> std::result::Result<OpenDatabase, Box<dyn std::error::Error>> {
        let (events, shutdown) = (self.events.clone(), running.shutdown_handle());
        let waiting = std::thread::Builder::new().name("marmota-end".to_owned());
        waiting.spawn(move || events.send(ServeEvent::Ended(running.join())))?;
        while let Ok(event) = received.recv() {
            match event {
                ServeEvent::Ended(ended) => {
                    ended?;
                    break;
                }
                // A caller that has gone needs no answer.
                ServeEvent::App(AppRequest::Read(reply)) => drop(reply.send(self.read())),
                ServeEvent::App(AppRequest::Change(change, reply)) => {
                    let answer = self.change(&change);
                    drop(reply.send(answer));
                }
                ServeEvent::Move(request) => {
                    let answer = self.act(&request.action);
                    drop(request.reply.send(answer));
                }
                ServeEvent::Filled(filled) => self.filled(filled),
            }
            if !self.database.store.is_open() {
                shutdown.shutdown();
                return Err("the database cannot be opened again; see the log".into());
            }
        }
        if let Some(live_move) = self.live_move.take() {
            live_move.stop()?;
        }
        Ok(self.database)
    }

    /// Returns the content of the file.
    fn read(&self) -> Result<AppText> {
        let path = self.path()?;
        let text = read(path)?;
        let app = AppFile::read(path)?;
        Ok(AppText { json: app.to_json(), tag: tag_of(&text) })
    }

    /// Returns the path of the file.
    fn path(&self) -> Result<&Path> {
        let none = || Error::new(ErrorKind::Bug, "the application has no file");
        self.parts.command.files.path().ok_or_else(none)
    }

    /// Makes a change, or shows what it would do.
    fn change(&mut self, change: &AppChange) -> Result<AppChanged> {
        if self.live_move.is_some() && !change.is_dry_run {
            let message = "the tables cannot change during a live move: end it first \
                           (`marmota move --live --end`)";
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let path = self.path()?.to_owned();
        let text = read(&path)?;
        let tag = tag_of(&text);
        if change.tag != tag {
            return Err(self.conflict(&change.by, &path, &tag));
        }
        let app = AppFile::parse_json(&change.json)?;
        self.parts.command.files.check(&app)?;
        let builder = app.add_to(crate::open(&self.database.url)?);
        let builder = self.serve.extend(self.parts.command, builder)?;
        let plan = builder.plan_for(&self.database.store)?;
        let steps = steps_of(&plan, &change.destructive);
        let refusal = plan.check(&change.destructive).err();
        if change.is_dry_run {
            let refusal = refusal.map(|error| error.message().to_owned());
            return Ok(AppChanged { steps, refusal, is_applied: false, tag });
        }
        if let Some(refusal) = refusal {
            return Err(Error::new(ErrorKind::Conflict, refusal.message()));
        }
        if self.database.is_replica() {
            let message = "this server has a replica: change the tables at its primary";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        check_reopens(&self.database.url)?;
        let new = match AppFormat::of_path(&path) {
            AppFormat::Toml => app.update_toml(&text)?,
            AppFormat::Json => app.to_json(),
        };
        // A folder that cannot be written to is found before the database is changed.
        let staged = Staged::write(&path, &new)?;
        self.replace(Some(app), &change.destructive)?;
        staged.rename(&path)?;
        let tag = tag_of(&new);
        self.latest =
            Some(LatestChange { by: change.by.clone(), at: Timestamp::now(), tag: tag.clone() });
        log::info!(target: "marmota", "{} has changed the application file", change.by);
        Ok(AppChanged { steps, refusal: None, is_applied: true, tag })
    }

    /// Opens the database again, with the tables of a file if there is one, and replaces the routes.
    fn replace(&mut self, app: Option<AppFile>, destructive: &Destructive) -> Result<()> {
        let busy = |what: &str| {
            Error::new(ErrorKind::Busy, format!("{what}; nothing was changed, try again later"))
        };
        // The store is closed when the target has all commits: clients do not wait for most of them.
        self.database.flush_replication(PATIENCE).map_err(|error| busy(error.message()))?;
        // What works in the background may wait for other servers; clients do not wait for these.
        self.database.stop_background()?;
        let changes = self.changes.clone();
        let Some(pause) = changes.pause(PATIENCE) else {
            self.start_background()?;
            return Err(busy("the server is starting or ending"));
        };
        if pause.requests_in_progress() > 0 {
            let requests = counted(pause.requests_in_progress() as u64, "request");
            log::warn!(target: "marmota", "the change of the tables ends {requests} without an answer");
        }
        if let Err(error) = self.database.close() {
            self.start_background()?;
            return Err(match error.kind() {
                ErrorKind::Busy => busy("a transaction is open"),
                _ => error,
            });
        }
        let files = &self.parts.command.files;
        let mut removed = Vec::new();
        let previous = app.map(|app| {
            let groups = app.groups();
            let previous = files.replace_app(Some(Rc::new(app)));
            let before = previous.iter().flat_map(|previous| previous.groups());
            let before = before.map(|group| group.name);
            removed.extend(before.filter(|name| groups.iter().all(|group| group.name != *name)));
            previous
        });
        let opened = self.open(destructive, &removed);
        let (database, routes) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                if let Some(previous) = previous {
                    self.parts.command.files.replace_app(previous);
                }
                self.role = None;
                let (database, routes) = self.open(&Destructive::default(), &[]).inspect_err(|error| {
                    log::error!(target: "marmota", "the database cannot be opened again: {error}");
                })?;
                self.database = database;
                pause.resume_with(routes).map_err(|error| of_routes(&error))?;
                return Err(error);
            }
        };
        self.database = database;
        pause.resume_with(routes).map_err(|error| of_routes(&error))
    }

    /// Starts again what works in the background, after a change that was not made.
    fn start_background(&mut self) -> Result<()> {
        let started = self.database.start_background(self.serve, self.parts);
        started.map_err(|error| of_start(&*error))
    }

    /// Opens the database, removes groups that are not in the file any more, and makes the routes.
    fn open(
        &self,
        destructive: &Destructive,
        removed_groups: &[String],
    ) -> Result<(OpenDatabase, marmota_http::Router)> {
        let mut database = OpenDatabase::open(
            self.serve,
            self.parts.command,
            &self.database.url,
            destructive,
            self.role,
        )?;
        #[cfg(feature = "replication")]
        self.parts.watch.replication.set(database.replication.clone());
        let started = database.start(self.serve, self.parts).map_err(|error| of_start(&*error));
        let prepared = started.and_then(|()| {
            let Some(auth) = database.auth() else { return Ok(()) };
            let stored = auth.groups()?;
            let is_stored = |name: &&String| stored.iter().any(|group| group.name == **name);
            removed_groups.iter().filter(is_stored).try_for_each(|name| auth.remove_group(name))
        });
        let routes = prepared.and_then(|()| {
            self.serve
                .routes(self.parts, &database, Some(&self.events))
                .map_err(|error| of_start(&*error))
        });
        match routes {
            Ok(routes) => Ok((database, routes)),
            Err(error) => {
                database.close()?;
                Err(error)
            }
        }
    }

    /// Returns the error for a file that was changed after it was read.
    fn conflict(&self, by: &str, path: &Path, tag: &str) -> Error {
        let whose = match &self.latest {
            Some(latest) if latest.tag == tag => {
                format!("`{}` has changed the application at {}", latest.by, latest.at)
            }
            _ => format!("{} was changed on the disk", path.display()),
        };
        let message = format!(
            "{whose}, after `{by}` had read it; nothing was changed. Load it again, and repeat the \
             change"
        );
        Error::new(ErrorKind::Stale, message)
    }
}

/// Checks that the rows are there after a database was closed and opened again.
fn check_reopens(url: &str) -> Result<()> {
    let is_lost =
        matches!(url.split('?').next(), Some("memory:" | "sqlite::memory:" | "sqlite:" | "memory"));
    match is_lost {
        true => Err(Error::new(
            ErrorKind::Unsupported,
            "the database is in memory only, and would lose its rows: serve one in a file, with \
             `--db sqlite:FILE` or `--db memory:FILE`",
        )),
        false => Ok(()),
    }
}

/// A file that is complete, next to its place.
struct Staged {
    path: std::path::PathBuf,
    is_renamed: bool,
}

impl Staged {
    fn write(path: &Path, text: &str) -> Result<Self> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let staged = Self { path: path.with_file_name(name), is_renamed: false };
        let written = std::fs::write(&staged.path, text)
            .and_then(|()| private_file::take_mode(&staged.path, path))
            .and_then(|()| std::fs::File::open(&staged.path)?.sync_all());
        written.map_err(|error| of_file(&staged.path, "write", &error))?;
        Ok(staged)
    }

    fn rename(mut self, path: &Path) -> Result<()> {
        std::fs::rename(&self.path, path).map_err(|error| {
            let why = "the database has the new tables, but the file has not: ";
            Error::new(ErrorKind::Engine, format!("{why}cannot write {}: {error}", path.display()))
        })?;
        self.is_renamed = true;
        // The name is durable once its folder is.
        let folder = std::fs::File::open(private_file::folder_of(path));
        folder.and_then(|folder| folder.sync_all()).map_err(|error| of_file(path, "sync", &error))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_renamed {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Reads the file. It is read again for its entity tag, which a change on the disk changes too.
fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| of_file(path, "read", &error))
}

fn of_file(path: &Path, verb: &str, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Invalid, format!("cannot {verb} {}: {error}", path.display()))
}

fn of_routes(error: &marmota_http::RouteError) -> Error {
    Error::new(ErrorKind::Invalid, error.to_string())
}

fn of_start(error: &dyn std::error::Error) -> Error {
    Error::new(ErrorKind::Invalid, error.to_string())
}
