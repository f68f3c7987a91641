//! Live moves: the server fills another database, follows its own with it, and makes it the primary.
//!
//! ```text
//! start      the database is opened again, so that it records the changes of all tables; a thread
//!            fills the other one
//! filled     the other database is opened; a follower applies each commit to it, and compares
//! flip       workers are stopped, requests wait; the follower changes the roles; the routes are
//!            made of the other database, and the requests are answered
//! ```
//!
//! After a flip the databases have changed places, so that another flip leads back.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use marmota_model::text::counted;
use marmota_model::{Error, ErrorKind, Result};
use marmota_store::pair::{self, Compared, PairFollower, PairRole, PairUrls, RowDifference};
use marmota_store::plan::Destructive;
use serde_json::{Value, json};

use super::{LiveServer, PATIENCE, check_reopens, of_routes, of_start};
use crate::command::serve::database::OpenDatabase;
use crate::command::serve::editing::ServeEvent;
use crate::command::serve::editing::move_routes::MoveAction;

/// The time for hooks and the last commits during a flip. Requests wait meanwhile.
const FLIP_MAX: Duration = Duration::from_secs(5);
/// A flip begins once the other database has at most this many commits to apply.
const LAG_MAX: u64 = 1_000;
/// Before it begins, it waits for up to this time until the other database has to apply at most so
/// many commits: those are applied while requests wait.
const CATCH_UP_MAX: Duration = Duration::from_secs(2);
const LAG_SHORT: u64 = 10;

/// A live move.
pub(in crate::command::serve) struct LiveMove {
    /// The URL of the database that is not the primary.
    secondary_url: String,
    state: MoveState,
    comparing: Option<Receiver<Result<Compared>>>,
    compared: Option<Compared>,
    /// The share of reads that are compared.
    compare_reads: f64,
    /// The number of flips by this process.
    flips: u32,
    /// The time for which requests waited in the last flip.
    pause: Option<Duration>,
    error: Option<String>,
}

enum MoveState {
    Filling(FillThread),
    Following(Box<OpenDatabase>, Box<PairFollower>),
    /// The other database could not be filled or opened.
    Failed,
}

/// The thread that fills the other database.
struct FillThread {
    progress: Arc<Mutex<Filled>>,
    is_stopped: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

#[derive(Clone, Default)]
struct Filled {
    table: String,
    rows: u64,
    rows_total: u64,
}

/// Locks the progress, which no panic leaves half written.
fn lock(progress: &Mutex<Filled>) -> MutexGuard<'_, Filled> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FillThread {
    fn stop(self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        // Its result was sent.
        let _ = self.thread.join();
    }
}

impl LiveMove {
    /// Ends what works in the background, and closes the other database.
    ///
    /// # Errors
    /// Those of the engine.
    pub(super) fn stop(self) -> Result<()> {
        match self.state {
            MoveState::Filling(thread) => thread.stop(),
            MoveState::Following(mut database, mut follower) => {
                follower.stop();
                database.close()?;
            }
            MoveState::Failed => {}
        }
        Ok(())
    }

    /// Takes the result of a comparison that has ended.
    fn take_compared(&mut self) {
        let Some(comparing) = &self.comparing else { return };
        match comparing.try_recv() {
            Ok(Ok(compared)) => self.compared = Some(compared),
            Ok(Err(error)) => self.error = Some(format!("the comparison has failed: {error}")),
            Err(TryRecvError::Empty) => return,
            Err(TryRecvError::Disconnected) => {}
        }
        self.comparing = None;
    }

    fn compare(&mut self) -> Result<()> {
        let MoveState::Following(_, follower) = &self.state else { return Err(not_following()) };
        if self.comparing.is_none() {
            self.compared = None;
            self.comparing = Some(follower.begin_compare());
        }
        Ok(())
    }
}

impl LiveServer<'_> {
    /// Executes a request of an administrator. Returns the state of the move.
    pub(super) fn act(&mut self, action: &MoveAction) -> Result<Value> {
        match action {
            MoveAction::Status => {}
            MoveAction::Start(to, share) => self.start_move(to, *share)?,
            MoveAction::Compare => {
                self.live_move.as_mut().ok_or_else(not_following)?.compare()?;
            }
            MoveAction::Flip => self.flip()?,
            MoveAction::End => self.end_move()?,
        }
        self.move_state()
    }

    /// Returns the state of the move.
    fn move_state(&mut self) -> Result<Value> {
        let primary = without_secrets(&self.database.url);
        let Some(live_move) = &mut self.live_move else {
            let record = pair::record_of(&self.database.store)?;
            let state = if record.is_some() { "interrupted" } else { "none" };
            let secondary = record.map(|record| record.peer);
            return Ok(json!({ "state": state, "primary": primary, "secondary": secondary }));
        };
        live_move.take_compared();
        let compared = live_move.compared.as_ref().map(|compared| {
            json!({
                "rows": compared.rows,
                "different": compared.different,
                "differences": listed(&compared.differences),
            })
        });
        let mut state = json!({
            "primary": primary,
            "secondary": without_secrets(&live_move.secondary_url),
            "compared": compared,
            "is_comparing": live_move.comparing.is_some(),
            "compare_reads": live_move.compare_reads,
            "flips": live_move.flips,
            "pause_ms": live_move.pause.map(|pause| pause.as_millis() as u64),
            "error": live_move.error,
        });
        match &live_move.state {
            MoveState::Filling(thread) => {
                let Filled { table, rows, rows_total } = lock(&thread.progress).clone();
                state["state"] = json!("filling");
                state["table"] = json!(table);
                state["rows"] = json!(rows);
                state["rows_total"] = json!(rows_total);
            }
            MoveState::Following(_, follower) => {
                let progress = follower.progress()?;
                state["state"] = json!("following");
                state["lag_commits"] = json!(progress.lag_commits);
                state["lag_ms"] = json!(progress.lag.as_millis() as u64);
                state["applied_changes"] = json!(progress.changes);
                state["reads"] = json!(follower.compared_reads().map(|reads| {
                    json!({
                        "compared": reads.compared,
                        "different": reads.different,
                        "failed": reads.failed,
                        "skipped": reads.skipped,
                        "differences": listed(&reads.differences),
                    })
                }));
                if let Some(error) = progress.error {
                    state["error"] = json!(error);
                }
            }
            MoveState::Failed => state["state"] = json!("failed"),
        }
        Ok(state)
    }

    /// Begins to fill another database, or continues after an interruption.
    fn start_move(&mut self, to: &str, compare_reads: f64) -> Result<()> {
        if let Some(live_move) = &mut self.live_move
            && !matches!(live_move.state, MoveState::Failed)
        {
            if live_move.secondary_url == to {
                live_move.compare_reads = compare_reads;
                return match &mut live_move.state {
                    MoveState::Following(_, follower) => follower.compare_reads(compare_reads),
                    _ => Ok(()),
                };
            }
            let other = without_secrets(&live_move.secondary_url);
            let message = format!("a move to {other} is in progress: end it first");
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        if self.database.is_replica() || self.database.is_replicated() {
            let message = "a database that is replicated, or a replica, cannot move while it is \
                           served: stop the server, and use `marmota move`";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if to.split('?').next() == self.database.url.split('?').next() {
            return Err(Error::new(ErrorKind::Invalid, "the server has this database already"));
        }
        check_reopens(&self.database.url)?;
        check_reopens(to)?;
        pair::check_alone(&self.database.store)?;
        let builder = OpenDatabase::builder_of_other(self.serve, self.parts.command, to)
            .map_err(|error| of_other(to, &error))?;
        for capability in [self.database.store.capability(), builder.capability()] {
            if !capability.change_feed {
                let message = format!(
                    "the engine `{}` has no change feed: stop the server, and use `marmota move`",
                    capability.name
                );
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
        }
        if !pair::is_prepared(&self.database.store) {
            self.role = Some(PairRole::Primary);
            self.replace(None, &Destructive::default())?;
        }
        let store = self.database.store.clone();
        let urls = PairUrls {
            primary: without_secrets(&self.database.url),
            secondary: without_secrets(to),
        };
        let progress = Arc::new(Mutex::new(Filled::default()));
        let is_stopped = Arc::new(AtomicBool::new(false));
        let thread = {
            let (progress, is_stopped) = (Arc::clone(&progress), Arc::clone(&is_stopped));
            let events = self.events.clone();
            let thread = std::thread::Builder::new().name("marmota-move".to_owned());
            let filling = thread.spawn(move || {
                let filled = pair::fill(&store, builder, &urls, &mut |step| {
                    let (table, rows) = (step.table.to_owned(), step.rows);
                    *lock(&progress) = Filled { table, rows, rows_total: step.rows_total };
                    match is_stopped.load(Ordering::Relaxed) {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    }
                });
                drop(store);
                // The server may have ended.
                let _ = events.send(ServeEvent::Filled(filled));
            });
            filling.map_err(|error| of_start(&error))?
        };
        log::info!(target: "marmota", "moving to {}", without_secrets(to));
        self.live_move = Some(LiveMove {
            secondary_url: to.to_owned(),
            state: MoveState::Filling(FillThread { progress, is_stopped, thread }),
            comparing: None,
            compared: None,
            compare_reads,
            flips: 0,
            pause: None,
            error: None,
        });
        Ok(())
    }

    /// Opens the other database once it is filled.
    pub(super) fn filled(&mut self, filled: Result<()>) {
        // The move may have ended meanwhile.
        let Some(mut live_move) = self.live_move.take() else { return };
        let followed = filled.and_then(|()| self.follow(&live_move));
        match followed {
            Ok(following) => {
                live_move.state = following;
                let _ = live_move.compare();
                log::info!(target: "marmota", "the other database is filled, and follows");
            }
            Err(error) => {
                log::error!(target: "marmota", "the move has failed: {error}");
                live_move.state = MoveState::Failed;
                live_move.error = Some(error.to_string());
            }
        }
        self.live_move = Some(live_move);
    }

    /// Opens the other database of a move as the secondary, and follows with it.
    fn follow(&self, live_move: &LiveMove) -> Result<MoveState> {
        let url = &live_move.secondary_url;
        let (command, role) = (self.parts.command, Some(PairRole::Secondary));
        let none = Destructive::default();
        let mut secondary = OpenDatabase::open(self.serve, command, url, &none, role)?;
        let started = PairFollower::start(&self.database.store, &secondary.store);
        let started = started.and_then(|mut follower| {
            follower.compare_reads(live_move.compare_reads)?;
            Ok(follower)
        });
        match started {
            Ok(follower) => Ok(MoveState::Following(Box::new(secondary), Box::new(follower))),
            Err(error) => {
                secondary.close()?;
                Err(error)
            }
        }
    }

    /// Makes the other database the primary.
    fn flip(&mut self) -> Result<()> {
        let mut live_move = self.live_move.take().ok_or_else(not_following)?;
        let flipped = self.flip_to(&mut live_move);
        self.live_move = Some(live_move);
        flipped
    }

    fn flip_to(&mut self, live_move: &mut LiveMove) -> Result<()> {
        live_move.take_compared();
        let MoveState::Following(_, follower) = &mut live_move.state else {
            return Err(not_following());
        };
        let conflict = |message: String| Error::new(ErrorKind::Conflict, message);
        match &live_move.compared {
            None => {
                let message = "the databases were not compared yet: wait until `compared` is in \
                               the state of the move";
                return Err(conflict(message.to_owned()));
            }
            Some(compared) if compared.different > 0 => {
                let message = format!(
                    "the databases differ in {}, such as {:?}: find out what else writes to the \
                     other one, end the move, and begin again with an empty database",
                    counted(compared.different, "row"),
                    compared.differences.first()
                );
                return Err(conflict(message));
            }
            Some(_) => {}
        }
        let until = Instant::now() + CATCH_UP_MAX;
        while follower.progress()?.lag_commits > LAG_SHORT && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let progress = follower.progress()?;
        if progress.lag_commits > LAG_MAX {
            let message = format!(
                "the other database has to apply {}: wait until they are at most {LAG_MAX}",
                counted(progress.lag_commits, "commit")
            );
            return Err(Error::new(ErrorKind::Busy, message));
        }
        pair::check_alone(&self.database.store)?;
        // Workers may wait for other servers; clients do not wait for these.
        self.database.stop_workers()?;
        // The read that is compared now may be a long one; clients do not wait for it either.
        follower.compare_reads(0.0)?;
        let done = self.exchange(live_move);
        if done.is_err()
            && let MoveState::Following(_, follower) = &mut live_move.state
        {
            // An error of the engine is that of the flip.
            let _ = follower.compare_reads(live_move.compare_reads);
        }
        if let Err(error) = &done
            && self.database.store.is_open()
        {
            log::warn!(target: "marmota", "the databases were not exchanged: {error}");
            self.database.stop_background()?;
            self.start_background()?;
        }
        done
    }

    fn exchange(&mut self, live_move: &mut LiveMove) -> Result<()> {
        let begun = Instant::now();
        let changes = self.changes.clone();
        let Some(pause) = changes.pause(PATIENCE) else {
            return Err(busy("the server is starting or ending"));
        };
        if pause.requests_in_progress() > 0 {
            return Err(busy(&format!(
                "the server has not yet answered {}",
                counted(pause.requests_in_progress() as u64, "request")
            )));
        }
        let state = std::mem::replace(&mut live_move.state, MoveState::Failed);
        let MoveState::Following(mut secondary, mut follower) = state else {
            return Err(not_following());
        };
        let held = begun.elapsed();
        if let Err(error) = follower.flip(FLIP_MAX) {
            live_move.state = MoveState::Following(secondary, follower);
            return Err(error);
        }
        drop(follower);
        let flipped = begun.elapsed();
        // From here on the other database is the primary: an error ends the server, and it is started
        // on that database.
        let started = secondary.start(self.serve, self.parts).map_err(|error| of_start(&*error));
        let routes = started.and_then(|()| {
            let routes = self.serve.routes(self.parts, &secondary, Some(&self.events));
            routes.map_err(|error| of_start(&*error))
        });
        let resumed =
            routes.and_then(|routes| pause.resume_with(routes).map_err(|error| of_routes(&error)));
        live_move.pause = Some(begun.elapsed());
        live_move.flips += 1;
        let mut old = std::mem::replace(&mut self.database, *secondary);
        let old_url = std::mem::take(&mut old.url);
        log::info!(
            target: "marmota",
            "{} is the primary; requests waited for {} ms: {} ms until those in progress ended, {} ms \
             for the last commits, and for the start of the other database",
            without_secrets(&self.database.url),
            begun.elapsed().as_millis(),
            held.as_millis(),
            (flipped - held).as_millis(),
        );
        if let Err(error) = resumed {
            log::error!(target: "marmota", "the new primary cannot be served: {error}");
            self.database.close()?;
            return Err(error);
        }
        // Streams of events end here; their clients connect again.
        let closed = old.close();
        drop(old);
        live_move.secondary_url = old_url;
        let followed = closed.and_then(|()| self.follow(live_move));
        match followed {
            Ok(state) => {
                live_move.state = state;
                live_move.compare()
            }
            Err(error) => {
                // The flip is done; only the way back is missing.
                log::error!(target: "marmota", "the old database cannot follow: {error}");
                live_move.error = Some(format!("the old database cannot follow: {error}"));
                Ok(())
            }
        }
    }

    /// Ends the pair.
    fn end_move(&mut self) -> Result<()> {
        if let Some(live_move) = self.live_move.take() {
            live_move.stop()?;
        }
        if pair::is_prepared(&self.database.store) {
            pair::end(&self.database.store)?;
        }
        self.role = None;
        Ok(())
    }
}

/// Returns differences as JSON.
fn listed(differences: &[RowDifference]) -> Vec<Value> {
    let row = |row: &RowDifference| json!({ "table": row.table, "key": row.key, "what": row.what });
    differences.iter().map(row).collect()
}

#[cold]
fn not_following() -> Error {
    let message = "the other database is not filled yet: see the state of the move";
    Error::new(ErrorKind::Conflict, message)
}

/// Returns the error for a database that cannot be opened. Its address is not hidden, because an
/// administrator has sent it.
#[cold]
fn of_other(to: &str, error: &Error) -> Error {
    let message = format!("cannot move to {}: {}", without_secrets(to), error.message());
    Error::new(ErrorKind::Invalid, message)
}

#[cold]
fn busy(what: &str) -> Error {
    Error::new(ErrorKind::Busy, format!("{what}; nothing was changed, try again"))
}

/// Returns a URL without the password, and without the options, which may have keys.
fn without_secrets(url: &str) -> String {
    let url = url.split('?').next().unwrap_or(url);
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    match rest.rsplit_once('@') {
        None => url.to_owned(),
        Some((user, host)) => {
            let user = user.split(':').next().unwrap_or(user);
            format!("{scheme}://{user}@{host}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::without_secrets;

    #[test]
    fn urls_are_shown_without_passwords_and_options() {
        for (url, shown) in [
            ("postgres://ann:p:w@db:5432/app?sslmode=require", "postgres://ann@db:5432/app"),
            ("postgres://db/app", "postgres://db/app"),
            ("sqlite:data/app.db?key_file=secret", "sqlite:data/app.db"),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }
}
