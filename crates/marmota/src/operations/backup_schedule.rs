//! When backups are made without a request, and how many are kept: set by the program, or by
//! administrators, whose choice is in `schedule.json` in the folder of the backups.
//!
//! Several processes may have the same folder. Each reads the file again every few seconds, so all of them
//! have the schedule that an administrator has set at one of them. The jobs of the database decide which
//! process makes a backup.

use std::io::Write as _;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use marmota_jobs::{CronPattern, ScheduleRow, Worker};
use marmota_model::{Error, ErrorKind, Result};
use marmota_store::Store;
use marmota_store::private_file;
use serde::{Deserialize, Serialize};

/// The name of the schedule among those of jobs.
pub(super) const NAME: &str = "backup";
/// The file in the folder of the backups.
const FILE: &str = "schedule.json";
/// The time after which the file is read again: another process may have changed it.
const CHECK: Duration = Duration::from_secs(5);

/// The schedule of backups. Clones share it.
#[derive(Clone, Default)]
pub(super) struct BackupSchedule {
    /// That of the program or that of administrators.
    plan: Arc<Mutex<Plan>>,
    /// Makes the backups at the times of the schedule.
    worker: Arc<Mutex<Option<Worker>>>,
    /// Reads the file again.
    watch: Arc<Mutex<Option<Watch>>>,
}

/// A thread that ends when this is dropped.
struct Watch {
    /// Its end is the signal: nothing is sent.
    stop: Sender<()>,
    /// Joined by [`BackupSchedule::stop`], so that no worker is started after it.
    thread: JoinHandle<()>,
}

/// When backups are made, and how many are kept.
#[derive(Clone, Default)]
pub(super) struct Plan {
    /// The times; `None` if backups are made by request only.
    pub(super) pattern: Option<CronPattern>,
    /// The number of backups that are kept; `None` for all.
    pub(super) keep: Option<usize>,
    /// True if the program sets the times, so that administrators cannot.
    pub(super) is_fixed: bool,
}

/// A plan in the file, and in requests.
#[derive(Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
struct PlanText {
    /// A pattern of five fields, such as `30 3 * * *`.
    schedule: Option<String>,
    /// At least 1.
    keep: Option<usize>,
}

impl BackupSchedule {
    /// Returns the current plan: that of the program, until [`BackupSchedule::read`] finds another one.
    pub(super) fn plan(&self) -> Plan {
        lock(&self.plan).clone()
    }

    /// Changes the plan of the program.
    pub(super) fn change(&self, change: impl FnOnce(&mut Plan)) {
        change(&mut lock(&self.plan));
    }

    /// Returns the same plan without the worker, for the worker itself.
    pub(super) fn without_worker(&self) -> Self {
        Self { plan: Arc::clone(&self.plan), ..Self::default() }
    }

    /// Returns the same schedule without the thread that reads the file, for the thread itself.
    pub(super) fn without_watch(&self) -> Self {
        Self { watch: Arc::default(), ..self.clone() }
    }

    /// Calls a function that reads the file, as often as [`CHECK`] passes. An error is logged once.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the system refuses a thread.
    pub(super) fn watch(&self, check: impl Fn() -> Result<()> + Send + 'static) -> Result<()> {
        let (stop, stopped) = channel();
        let mut last = None;
        let run = move || {
            while stopped.recv_timeout(CHECK) == Err(RecvTimeoutError::Timeout) {
                let error = check().err().map(|error| error.to_string());
                if let Some(error) = error.as_ref().filter(|_| error != last) {
                    log::warn!(target: "marmota::operations", "the schedule of backups: {error}");
                }
                last = error;
            }
        };
        let thread = std::thread::Builder::new().name("marmota-schedule".to_owned()).spawn(run);
        let thread = thread.map_err(|error| Error::new(ErrorKind::Io, error.to_string()))?;
        *lock(&self.watch) = Some(Watch { stop, thread });
        Ok(())
    }

    /// Reads the plan of administrators, unless the program sets the times. Returns true if it has
    /// changed.
    ///
    /// # Errors
    /// Those of a file that is there and cannot be read.
    pub(super) fn read(&self, folder: &Path) -> Result<bool> {
        if self.plan().is_fixed {
            return Ok(false);
        }
        let path = folder.join(FILE);
        let of_file = |error: &dyn std::fmt::Display| {
            let message = format!("{} cannot be read: {error}; remove it", path.display());
            Error::new(ErrorKind::Invalid, message)
        };
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(of_file(&error)),
        };
        let plan = parse(&text).map_err(|error| of_file(&error.message()))?;
        let mut current = lock(&self.plan);
        let is_changed = plan.text() != current.text();
        *current = plan;
        Ok(is_changed)
    }

    /// Replaces the plan by that of a request, in the file too.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if the program sets the times, [`ErrorKind::Invalid`] for a plan that
    /// cannot be read, [`ErrorKind::Io`] if the file cannot be written.
    pub(super) fn set(&self, folder: &Path, body: &[u8]) -> Result<()> {
        if self.plan().is_fixed {
            let message = "the server was started with a schedule of backups: change the setting \
                           `backup_schedule`";
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let plan = parse(body)?;
        let text = plan.text();
        let path = folder.join(FILE);
        private_file::have_folder(folder, false)?;
        private_file::have_folder(&path, true)?;
        let written = serde_json::to_vec(&text).map_err(std::io::Error::from).and_then(|text| {
            let staged = path.with_extension("json.new");
            let _ = std::fs::remove_file(&staged);
            let mut file = private_file::create(&staged)?;
            file.write_all(&text)?;
            file.sync_all()?;
            std::fs::rename(&staged, &path)
        });
        written.map_err(|error| {
            let message = format!("{} cannot be written: {error}", path.display());
            Error::new(ErrorKind::Io, message)
        })?;
        *lock(&self.plan) = plan;
        Ok(())
    }

    /// Replaces the worker. Without one, the schedule is removed from those of jobs.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) fn replace_worker(
        &self,
        store: &Store,
        start: impl FnOnce() -> Result<Option<Worker>>,
    ) -> Result<()> {
        let mut worker = lock(&self.worker);
        if let Some(previous) = worker.take() {
            previous.stop()?;
        }
        *worker = start()?;
        if worker.is_none()
            && store.registry().of::<ScheduleRow>().is_ok()
            && store.get::<ScheduleRow>(NAME).optional().run()?.is_some()
        {
            store.delete::<ScheduleRow>(NAME).run()?;
        }
        Ok(())
    }

    /// Stops the worker, and waits for a backup that is in progress.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) fn stop(&self) -> Result<()> {
        let watch = lock(&self.watch).take();
        if let Some(Watch { stop, thread }) = watch {
            drop(stop);
            // It logs its errors.
            let _ = thread.join();
        }
        let worker = lock(&self.worker).take();
        worker.map_or(Ok(()), Worker::stop)
    }
}

impl Plan {
    /// Returns the plan as it is in the file.
    fn text(&self) -> PlanText {
        PlanText { schedule: self.pattern.as_ref().map(ToString::to_string), keep: self.keep }
    }
}

/// Reads a plan of the file, or of a request.
///
/// # Errors
/// [`ErrorKind::Invalid`] for another text, a pattern that is none, or `keep` 0.
fn parse(text: &[u8]) -> Result<Plan> {
    let of_text = |error: serde_json::Error| {
        let message = format!(
            "{error}; send an object such as {{\"schedule\":\"30 3 * * *\",\"keep\":14}}, with null \
             for no schedule, or to keep all"
        );
        Error::new(ErrorKind::Invalid, message)
    };
    let PlanText { schedule, keep } = serde_json::from_slice(text).map_err(of_text)?;
    if keep == Some(0) {
        let message = "`keep` is 0; it must be at least 1, or null to keep all";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let pattern = schedule.map(|schedule| parse_pattern(&schedule)).transpose()?;
    Ok(Plan { pattern, keep, is_fixed: false })
}

/// Reads a pattern as it is written by a person, or with the name of the time zone after it.
fn parse_pattern(text: &str) -> Result<CronPattern> {
    text.strip_suffix(" UTC").unwrap_or(text).parse()
}

/// Locks a mutex, also after a panic of another thread: what it guards is replaced as a whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
