//! `/api/-/backups`: the backups in a folder, a new one, and their files; `/api/-/replication`.
//!
//! ```text
//! GET /api/-/backups       {"backups":[{"name":"backup-2026…","bytes":73728,…}],"restore":"…",…}
//! POST /api/-/backups      makes a backup, and returns it
//! PUT /api/-/backups/schedule   sets the times of backups
//! ```
//!
//! Backups are made, verified and read on threads of their own, one at a time. With a schedule, a
//! durable job makes them, so that one of several processes does it, and the page of jobs shows it. A
//! restore replaces the database, so it stays a command of the program.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use marmota_auth::Auth;
use marmota_http::{BodyStream, Method, Response};
use marmota_jobs::{
    CronPattern, Job, JobContext, JobFailure, JobOptions, Jobs, ScheduleRow, Worker, WorkerOptions,
};
use marmota_model::{Error, ErrorKind, Result, Timestamp, text};
use marmota_rest::{ApiResult, admin_endpoint};
use marmota_store::Store;
use marmota_store::backup::{self, Manifest};
use marmota_store::private_file::have_folder;
use marmota_store::thread_pool::ThreadPool;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::backup_schedule::{self, BackupSchedule};
use super::{AdminRoute, Status};

/// The beginning of the names, as that of the command `backup`.
const BEGIN: &str = "backup-";
/// The number of backups that the list has, the newest first.
const LISTED_MAX: usize = 500;
/// The number of downloads at a time, and the number of requests that wait for a thread.
const DOWNLOADS_MAX: usize = 2;
const WAITING_MAX: usize = 4;
/// The size of the pieces of a download, and how much may wait for its client, in bytes.
const PIECE_BYTES: usize = 256 << 10;
/// What the routes do, for the error that refuses a caller.
const MAY: &str = "see and make backups";

/// The backups of a store in a folder. Clones refer to the same folder and schedule.
///
/// ```
/// use marmota::operations::Backups;
/// # let folder = std::env::temp_dir().join(format!("marmota-backups-{}", std::process::id()));
/// let store = marmota::open("sqlite::memory:")?.open()?;
/// let backups = Backups::new(&store, &folder).keep(7);
/// # let _ = backups;
/// # Ok::<(), marmota::Error>(())
/// ```
#[derive(Clone)]
pub struct Backups {
    store: Store,
    folder: PathBuf,
    schedule: BackupSchedule,
    /// The command that restores a backup, for the page.
    restore: String,
    /// Makes and verifies one backup at a time.
    making: Arc<ThreadPool>,
    /// Reads the files of downloads.
    reading: Arc<ThreadPool>,
}

impl Backups {
    /// Creates the backups of a store in a folder, which is made with the first one.
    #[must_use]
    pub fn new(store: &Store, folder: impl Into<PathBuf>) -> Self {
        let pool =
            |name, threads| Arc::new(ThreadPool::new(name, threads).waiting_max(WAITING_MAX));
        Self {
            store: store.clone(),
            folder: folder.into(),
            schedule: BackupSchedule::default(),
            restore: "marmota restore".to_owned(),
            making: pool("marmota-backup", 1),
            reading: pool("marmota-backup-read", DOWNLOADS_MAX),
        }
    }

    /// Removes all but this number of backups after each new one. Default: none is removed.
    ///
    /// ```
    /// use marmota::operations::Backups;
    /// # let folder = std::env::temp_dir().join(format!("marmota-keep-{}", std::process::id()));
    /// let store = marmota::open("memory:")?.open()?;
    /// let backups = Backups::new(&store, &folder).keep(14);
    /// # let _ = backups;
    /// # Ok::<(), marmota::Error>(())
    /// ```
    #[must_use]
    pub fn keep(self, backups: usize) -> Self {
        self.schedule.change(|plan| plan.keep = Some(backups.max(1)));
        self
    }

    /// Makes backups at these times, once [`Backups::start`] was called; administrators cannot change
    /// them. Default: the times that administrators set, otherwise only by request.
    ///
    /// ```
    /// use marmota::operations::Backups;
    /// # let folder = std::env::temp_dir().join(format!("marmota-schedule-{}", std::process::id()));
    /// let store = marmota::jobs::models(marmota::open("memory:")?).open()?;
    /// let backups = Backups::new(&store, &folder).schedule("30 3 * * *".parse()?).keep(14);
    /// backups.start()?;
    /// backups.stop()?;
    /// # Ok::<(), marmota::Error>(())
    /// ```
    #[must_use]
    pub fn schedule(self, pattern: CronPattern) -> Self {
        self.schedule.change(|plan| {
            plan.pattern = Some(pattern);
            plan.is_fixed = true;
        });
        self
    }

    /// Sets the command that restores a backup, which is shown with the path after it. Default:
    /// `marmota restore`.
    ///
    /// ```
    /// use marmota::http::TestRequest;
    /// use marmota::operations::{Backups, Operations};
    /// let store = marmota::open("memory:")?.open()?;
    /// let backups = Backups::new(&store, "backups").restore_command("people restore --db app.mem");
    /// let router = Operations::new(&store).backups(&backups).router();
    /// let list = router.call(TestRequest::get("/api/-/backups"))?;
    /// assert!(list.text().contains(r#""folder":"backups""#));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn restore_command(mut self, command: impl Into<String>) -> Self {
        self.restore = command.into();
        self
    }

    /// Starts making backups at the times of the schedule: that of the program, or that of
    /// administrators in the folder. The store needs the tables of jobs for one. Call
    /// [`Backups::stop`] before the store is closed. A schedule that another process sets in the same
    /// folder applies within some seconds.
    ///
    /// # Errors
    /// Those of [`Jobs::start`], and of the file with the schedule.
    pub fn start(&self) -> Result<()> {
        self.schedule.read(&self.folder)?;
        self.schedule.replace_worker(&self.store, || self.worker())?;
        if self.schedule.plan().is_fixed || !self.is_changeable() {
            return Ok(());
        }
        let backups = Self { schedule: self.schedule.without_watch(), ..self.clone() };
        self.schedule.watch(move || match backups.schedule.read(&backups.folder)? {
            true => backups.schedule.replace_worker(&backups.store, || backups.worker()),
            false => Ok(()),
        })
    }

    /// Stops making backups by the schedule. Waits for one that is in progress.
    ///
    /// ```
    /// use marmota::operations::Backups;
    /// # let folder = std::env::temp_dir().join(format!("marmota-stop-{}", std::process::id()));
    /// let store = marmota::jobs::models(marmota::open("memory:")?).open()?;
    /// let backups = Backups::new(&store, &folder);
    /// backups.start()?;
    /// backups.stop()?;
    /// store.close()?;
    /// # Ok::<(), marmota::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Worker::stop`].
    pub fn stop(&self) -> Result<()> {
        self.schedule.stop()
    }

    /// Starts the worker of the schedule, if there is one.
    fn worker(&self) -> Result<Option<Worker>> {
        let Some(pattern) = self.schedule.plan().pattern else { return Ok(None) };
        let backups = Self { schedule: self.schedule.without_worker(), ..self.clone() };
        let jobs = Jobs::new(&self.store).register_with(move |_: MakeBackup, _| {
            let backups = backups.clone();
            async move { backups.make().map(drop).map_err(JobFailure::from) }
        })?;
        let jobs = jobs.schedule(backup_schedule::NAME, pattern, MakeBackup {})?;
        jobs.start(WorkerOptions::new().queue(QUEUE, 1)).map(Some)
    }

    /// Sets the schedule of administrators, and how many backups are kept. Returns the list of backups.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] without tables of jobs, and those of the schedule.
    fn set_schedule(&self, body: &[u8]) -> Result<Value> {
        if !self.is_changeable() {
            let message = "this server cannot make backups by a schedule: the database is a \
                           replica, or has no tables of jobs";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        self.schedule.set(&self.folder, body)?;
        self.schedule.replace_worker(&self.store, || self.worker())?;
        self.document()
    }

    /// Returns true if the store can have jobs, so that there can be a schedule.
    fn is_changeable(&self) -> bool {
        self.store.registry().of::<ScheduleRow>().is_ok()
    }

    /// Makes a backup, and removes old ones.
    fn make(&self) -> Result<Value> {
        have_folder(&self.folder, false)?;
        let path = backup::new_in_folder(&self.folder, BEGIN);
        have_folder(&path, true)?;
        let manifest = self.store.backup_to(&path)?;
        log::info!(target: "marmota::operations", "made the backup {}", path.display());
        if let Some(keep) = self.schedule.plan().keep {
            for old in backup::keep_newest(&self.folder, BEGIN, keep)? {
                log::info!(target: "marmota::operations", "removed the backup {}", old.display());
            }
        }
        Ok(self.described(&path, &manifest))
    }

    fn described(&self, path: &Path, manifest: &Manifest) -> Value {
        let all = std::iter::once((manifest.bytes, &manifest.tables))
            .chain(manifest.others.iter().map(|other| (other.bytes, &other.tables)));
        let (mut bytes, mut tables, mut rows) = (0, 0, 0);
        for (size, of_database) in all {
            bytes += size;
            tables += of_database.len();
            rows += of_database.values().sum::<u64>();
        }
        json!({
            "name": path.file_name().map(|name| name.to_string_lossy()),
            "taken": manifest.taken,
            "engine": manifest.engine,
            "databases": 1 + manifest.others.len(),
            "encrypted": manifest.encrypted,
            "bytes": bytes,
            "tables": tables,
            "rows": rows,
            "restore": format!("{} {} --replace", self.restore, quoted(path)),
        })
    }

    fn document(&self) -> Result<Value> {
        let found = match self.folder.is_dir() {
            true => backup::in_folder(&self.folder, BEGIN)?,
            false => Vec::new(),
        };
        let newest = found.iter().rev().take(LISTED_MAX);
        let backups: Vec<Value> = newest
            .map(|path| match Manifest::of(path) {
                Ok(manifest) => self.described(path, &manifest),
                Err(error) => json!({
                    "name": path.file_name().map(|name| name.to_string_lossy()),
                    "error": error.message(),
                }),
            })
            .collect();
        let plan = self.schedule.plan();
        let next = plan.pattern.as_ref().map(|pattern| pattern.next_after(Timestamp::now()));
        Ok(json!({
            "folder": self.folder.display().to_string(),
            "keep": plan.keep,
            "schedule": plan.pattern.as_ref().map(ToString::to_string),
            "is_changeable": !plan.is_fixed && self.is_changeable(),
            "next_at": next.transpose()?.map(|at| at.to_string()),
            "backups": backups,
        }))
    }

    /// Returns the path of a backup with this name.
    fn find(&self, name: &str) -> Result<PathBuf> {
        let found = match self.folder.is_dir() {
            true => backup::in_folder(&self.folder, BEGIN)?,
            false => Vec::new(),
        };
        let is_it = |path: &PathBuf| path.file_name().is_some_and(|file| *file == *name);
        found.into_iter().find(is_it).ok_or_else(|| {
            let message = format!("no backup has the name `{}`", text::excerpt(name));
            Error::new(ErrorKind::NotFound, message)
        })
    }

    pub(super) fn routes(&self, auth: Option<&Auth>) -> [AdminRoute; 6] {
        let (get, post) = (Method::Get, Method::Post);
        let endpoint = |pool: &Arc<ThreadPool>, work: fn(&Self, &str) -> Result<Value>| {
            let (backups, pool) = (self.clone(), Arc::clone(pool));
            admin_endpoint(auth, MAY, move |request, _| {
                let name = request.param("backup").unwrap_or_default().into_owned();
                let (backups, pool) = (backups.clone(), Arc::clone(&pool));
                async move {
                    let done = on(&pool, move || work(&backups, &name)).await?;
                    Ok(Response::json_bytes(done.to_string().into_bytes()))
                }
            })
        };
        let download = |path: fn(&Path) -> PathBuf| {
            let backups = self.clone();
            admin_endpoint(auth, MAY, move |request, _| {
                let name = request.param("backup").unwrap_or_default().into_owned();
                backups.clone().send(name, path)
            })
        };
        let verify = |backups: &Self, name: &str| {
            let path = backups.find(name)?;
            let begun = std::time::Instant::now();
            let checked = Manifest::of(&path)?.verify(&path);
            Ok(json!({
                "name": name,
                "is_intact": checked.is_ok(),
                "problem": checked.err().map(|error| error.message().to_owned()),
                "seconds": begun.elapsed().as_secs_f64(),
            }))
        };
        let (backups, pool) = (self.clone(), Arc::clone(&self.making));
        let schedule = admin_endpoint(auth, MAY, move |request, caller| {
            let (backups, pool) = (backups.clone(), Arc::clone(&pool));
            let body = request.body().to_vec();
            async move {
                let done = on(&pool, move || backups.set_schedule(&body)).await?;
                let by = caller.as_ref().map_or("a caller", |caller| &*caller.caller().name);
                log::info!(target: "marmota::operations", "{by} has changed the schedule of backups");
                Ok(Response::json_bytes(done.to_string().into_bytes()))
            }
        });
        let list = endpoint(&self.reading, |backups, _| backups.document());
        let make = endpoint(&self.making, |backups, _| backups.make());
        let verify = endpoint(&self.reading, verify);
        let binary = "application/octet-stream";
        [
            AdminRoute::new(get, "/backups", "Returns the backups, the newest first", list),
            AdminRoute::new(post, "/backups", "Makes a backup", make),
            AdminRoute::new(
                Method::Put,
                "/backups/schedule",
                "Sets the times of backups, and how many are kept",
                schedule,
            )
            .body(json!({
                "type": "object",
                "properties": {
                    "schedule": { "type": ["string", "null"] },
                    "keep": { "type": ["integer", "null"], "minimum": 1, "maximum": u32::MAX },
                },
                "additionalProperties": false,
            })),
            AdminRoute::new(
                post,
                "/backups/{backup}/verify",
                "Compares a backup with its manifest",
                verify,
            ),
            AdminRoute::new(
                get,
                "/backups/{backup}/file",
                "Returns the file of a backup",
                download(Path::to_path_buf),
            )
            .answer(binary),
            AdminRoute::new(
                get,
                "/backups/{backup}/manifest",
                "Returns the manifest of a backup",
                download(backup::manifest_path),
            )
            .answer(binary),
        ]
    }

    /// Sends a file of a backup.
    async fn send(self, name: String, of: fn(&Path) -> PathBuf) -> ApiResult<Response> {
        let pool = Arc::clone(&self.reading);
        let opened = move || {
            let path = of(&self.find(&name)?);
            let file = std::fs::File::open(&path).map_err(|error| {
                let message = format!("{} cannot be read: {error}", path.display());
                Error::new(ErrorKind::Io, message)
            })?;
            Ok((file, path))
        };
        let (mut file, path) = on(&pool, opened).await?;
        let (mut sender, body) = BodyStream::channel(PIECE_BYTES);
        pool.run(move || {
            let mut piece = vec![0; PIECE_BYTES];
            loop {
                match file.read(&mut piece) {
                    Ok(0) => return sender.finish(),
                    Ok(count) if sender.send_blocking(&piece[..count]).is_ok() => {}
                    Ok(_) => return,
                    Err(error) => return sender.fail(error),
                }
            }
        });
        let response = Response::streamed("application/octet-stream", body);
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let value = format!("attachment; filename=\"{name}\"");
        Ok(response
            .with_header("Content-Disposition", value)
            .map_err(|error| Error::new(ErrorKind::Bug, error.to_string()))?)
    }
}

impl std::fmt::Debug for Backups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backups").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// Executes work on a thread.
async fn on<T: Send + 'static>(
    pool: &Arc<ThreadPool>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match pool.result_of(work) {
        Some(result) => result.await?,
        None => {
            let message = "other requests for backups are in progress; try again later";
            Err(Error::new(ErrorKind::Busy, message))
        }
    }
}

/// Returns a path as one word of a shell.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-:=".contains(&byte);
    match path.bytes().all(is_plain) {
        true => path,
        false => format!("'{}'", path.replace('\'', "'\\''")),
    }
}

/// Returns the route for the state of the replication.
pub(super) fn replication(auth: Option<&Auth>, status: &Status) -> AdminRoute {
    let status = Arc::clone(status);
    let endpoint = admin_endpoint(auth, "see the replication", move |_, _| {
        let body = status().to_string().into_bytes();
        async move { Ok(Response::json_bytes(body)) }
    });
    AdminRoute::new(Method::Get, "/replication", "Returns the state of the replication", endpoint)
}

/// The queue of the jobs that make backups.
const QUEUE: &str = "backup";

/// The job that makes a backup.
#[derive(Debug, Deserialize, Serialize)]
struct MakeBackup {}

impl Job for MakeBackup {
    const NAME: &'static str = "marmota_backup";

    fn options() -> JobOptions {
        let options = JobOptions::new().queue(QUEUE).retries(2).blocking();
        options.timeout(Duration::from_secs(6 * 3600))
    }

    async fn run(self, context: JobContext) -> std::result::Result<(), JobFailure> {
        context.no_retry();
        Err(JobFailure::new("start the worker by `Backups::start`"))
    }
}
