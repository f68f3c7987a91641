//! The table of engines: measures each figure, and compares the rows that are read with those that
//! were inserted.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bench_orm_workload::{Random, Sum};
use marmota::prelude::*;
use serde::Serialize;

use super::contender::{BATCH_ROWS, Contender, DirectSqlite, Marmota};
use super::engine::{Engine, FIGURES};
use super::progress::Progress;
use super::record::{Person, people};
use super::servers::Servers;

/// Rows between two checks of the time.
const SLICE: usize = 100;

/// The extent of the measurements.
pub(super) struct Scale {
    pub(super) rows: usize,
    pub(super) rounds: u32,
    /// Measurements of single calls stop after this time.
    pub(super) limit: Duration,
}

/// A cell of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Figure {
    pub(super) rows_per_second: f64,
    /// Rows inserted or read.
    pub(super) rows: u64,
    /// System calls that waited for the disk during the measurement.
    pub(super) syncs: u64,
}

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct EngineRow {
    pub(super) engine: Cow<'static, str>,
    #[serde(skip)]
    pub(super) title: Cow<'static, str>,
    /// In the order of [`FIGURES`], as all figures here.
    pub(super) marmota: Vec<Figure>,
    pub(super) by_hand: Option<Vec<Figure>>,
    /// The engine with the same settings and an unencrypted file.
    pub(super) plain: Option<&'static str>,
    /// Rows per second.
    pub(super) mormot: Option<Vec<f64>>,
}

/// An engine that is not available on this machine.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MissingEngine {
    pub(super) engine: Cow<'static, str>,
    #[serde(skip)]
    pub(super) title: Cow<'static, str>,
    pub(super) reason: String,
}

/// Measures engines, each in turns with direct calls. Returns the rows of the table, and the engines
/// that are not available.
///
/// # Errors
/// Those of an engine, or an error if the rows that were read differ from those inserted.
pub(super) fn engines(
    engines: &[Engine],
    scale: &Scale,
    folder: &Path,
) -> Result<(Vec<EngineRow>, Vec<MissingEngine>)> {
    let (people, servers) = (people(scale.rows), Servers::default());
    let mut progress = Progress::new(engines.len() * scale.rounds as usize);
    let mut bench = Bench { people: &people, scale, folder, files: 0 };
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    for engine in engines {
        let open = |path: &Path| Marmota::open(engine, path, &servers);
        if engine.may_be_missing()
            && let Err(error) = open(folder)
        {
            progress.skip(scale.rounds as usize);
            let (engine, title) = (engine.name.clone(), engine.title.clone());
            missing.push(MissingEngine { engine, title, reason: error.message().to_owned() });
            continue;
        }
        let (mut own, mut by_hand) = (Vec::new(), Vec::new());
        for round in 1..=scale.rounds {
            progress.step(&format!("{}, round {round}", engine.title));
            own.push(bench.round(open)?);
            if let Some(pragmas) = engine.by_hand {
                let path = |path: &Path| engine.is_file().then(|| path.to_owned());
                by_hand.push(bench.round(|it| DirectSqlite::open(pragmas, path(it).as_deref()))?);
            }
        }
        rows.push(EngineRow {
            engine: engine.name.clone(),
            title: engine.title.clone(),
            marmota: medians(&own),
            by_hand: engine.by_hand.map(|_| medians(&by_hand)),
            plain: engine.plain,
            mormot: engine.mormot.map(|all| all.iter().map(|thousands| thousands * 1e3).collect()),
        });
    }
    Ok((rows, missing))
}

/// Returns the median of the rounds for each figure.
fn medians(rounds: &[Vec<Figure>]) -> Vec<Figure> {
    let median = |place: usize| {
        let mut all: Vec<Figure> = rounds.iter().map(|round| round[place]).collect();
        all.sort_by(|a, b| a.rows_per_second.total_cmp(&b.rows_per_second));
        all[all.len() / 2]
    };
    (0..FIGURES.len()).map(median).collect()
}

struct Bench<'b> {
    people: &'b [Person],
    scale: &'b Scale,
    folder: &'b Path,
    files: u32,
}

impl Bench<'_> {
    /// Measures all figures of a contender; each kind of insert has its own file.
    fn round<C: Contender>(&mut self, open: impl Fn(&Path) -> Result<C>) -> Result<Vec<Figure>> {
        let mut figures = Vec::new();
        for (is_batch, in_transaction) in [(false, false), (true, false), (false, true)] {
            let path = self.fresh();
            let figure = self.insert(&mut open(&path)?, is_batch, in_transaction)?;
            remove(&path);
            figures.push(figure);
        }
        let path = self.fresh();
        let mut contender = open(&path)?;
        figures.push(self.insert(&mut contender, true, true)?);
        figures.extend(self.read(&mut contender)?);
        drop(contender);
        remove(&path);
        Ok(figures)
    }

    fn fresh(&mut self) -> PathBuf {
        self.files += 1;
        self.folder.join(format!("table-{}.db", self.files))
    }

    fn insert(
        &self,
        contender: &mut impl Contender,
        is_batch: bool,
        in_transaction: bool,
    ) -> Result<Figure> {
        // The rows that are read back must be complete.
        let limit = if is_batch && in_transaction { Duration::MAX } else { self.scale.limit };
        let (syncs, started) = (contender.syncs(), Instant::now());
        let mut rows = 0;
        if in_transaction {
            contender.begin()?;
        }
        for some in self.people.chunks(if is_batch { BATCH_ROWS } else { SLICE }) {
            match is_batch {
                true => contender.insert_batch(some)?,
                false => contender.insert_each(some)?,
            }
            rows += some.len();
            if started.elapsed() > limit {
                break;
            }
        }
        if in_transaction {
            contender.commit()?;
        }
        let figure = figure(rows, started.elapsed(), contender.syncs() - syncs);
        let mut sum = Sum::default();
        contender.scan(&mut sum)?;
        self.check(sum, (1..=rows as i64).collect::<Vec<_>>().as_slice())?;
        Ok(figure)
    }

    fn read(&self, contender: &mut impl Contender) -> Result<[Figure; 3]> {
        let mut ids: Vec<i64> = (1..=self.people.len() as i64).collect();
        let all = ids.clone();
        Random::new(7).shuffle(&mut ids);
        let (mut sum, mut rows, started) = (Sum::default(), 0, Instant::now());
        for some in ids.chunks(SLICE) {
            contender.read_each(some, &mut sum)?;
            rows += some.len();
            if started.elapsed() > self.scale.limit {
                break;
            }
        }
        let by_id = figure(rows, started.elapsed(), 0);
        self.check(sum, &ids[..rows])?;
        let mut timed = |is_direct: bool| {
            let (mut sum, started) = (Sum::default(), Instant::now());
            match is_direct {
                true => contender.scan(&mut sum)?,
                false => contender.list(&mut sum)?,
            }
            let figure = figure(all.len(), started.elapsed(), 0);
            self.check(sum, &all).map(|()| figure)
        };
        Ok([by_id, timed(false)?, timed(true)?])
    }

    /// Compares the rows that were read with the people with these ids.
    fn check(&self, sum: Sum, ids: &[i64]) -> Result<()> {
        let mut expected = Sum::default();
        for &id in ids {
            let person = &self.people[id as usize - 1];
            let (first, last) = (person.first_name.len(), person.last_name.len());
            expected.add(id, first, last, person.balance.scaled(), person.met_at.micros(), 0, 0);
        }
        if sum == expected {
            return Ok(());
        }
        let message = format!(
            "the rows that were read differ from the inserted rows: {sum:?}, \
                               {expected:?}"
        );
        Err(Error::new(ErrorKind::Bug, message))
    }
}

fn figure(rows: usize, took: Duration, syncs: u64) -> Figure {
    let rows_per_second = rows as f64 / took.as_secs_f64().max(1e-9);
    Figure { rows_per_second, rows: rows as u64, syncs }
}

fn remove(path: &Path) {
    for end in ["", "-wal", "-shm", ".lock", ".log.1"] {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        // Some of the files may be missing.
        let _ = std::fs::remove_file(name);
    }
}
