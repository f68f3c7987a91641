//! Measures a contender: times each figure, checks the rows and prints a JSON line per figure.
//!
//! Every contender gets the same number of repeats, and the best one counts, because other programs
//! can only add time. The `bench` program takes the medians over processes.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::check::{check_list, check_sum};
use crate::machine::{stolen_ms, waited_ns};
use crate::{Contender, Figure, Person, Place, Random, Result, Setting, Sum, people};

/// Rows of one call to `insert_batch`.
const BATCH_ROWS: usize = 500;
/// Rows or ids between two checks of the clock, for figures with a time limit.
const SLICE: usize = 100;
/// Rows inserted to compare the statement sizes.
const TRIAL_ROWS: usize = 20_000;

/// The task of one process.
struct Task {
    setting: Setting,
    rows: usize,
    folder: PathBuf,
    /// Figures of single calls stop after this time and report the rate so far.
    limit: Duration,
}

/// The result of the best repeat.
struct Best {
    rows: usize,
    elapsed: Duration,
    /// Time for which the thread waited for a core in that repeat.
    waited: Duration,
}

/// The `main` of a contender. Usage: `--setting memory --rows 5000 --folder /tmp [--limit-ms
/// 1000]`.
pub fn run<C: Contender>() -> ExitCode {
    let measured = Task::from_args().and_then(|task| task.measure::<C>());
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", C::NAME);
            ExitCode::FAILURE
        }
    }
}

impl Task {
    fn from_args() -> Result<Self> {
        let mut task = Self {
            setting: Setting::Memory,
            rows: 5_000,
            folder: std::env::temp_dir(),
            limit: Duration::from_millis(1_000),
        };
        let mut args = std::env::args().skip(1);
        while let Some(name) = args.next() {
            let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--setting" => {
                    task.setting = Setting::parse(&value)
                        .ok_or_else(|| format!("unknown setting {value:?}"))?;
                }
                "--rows" => task.rows = value.parse()?,
                "--folder" => task.folder = value.into(),
                "--limit-ms" => task.limit = Duration::from_millis(value.parse()?),
                _ => return Err(format!("unknown option {name:?}").into()),
            }
        }
        if task.rows == 0 {
            return Err("--rows must be at least 1".into());
        }
        Ok(task)
    }

    fn measure<C: Contender>(&self) -> Result<()> {
        if !C::SETTINGS.contains(&self.setting) {
            return Ok(());
        }
        let people = people(self.rows);
        let new: Vec<C::New> = people.iter().map(C::new).collect();
        let statement_rows = self.best_statement_size::<C>(&people, &new)?;
        for &figure in C::FIGURES.iter().filter(|figure| figure.is_insert()) {
            let stolen = stolen_ms();
            let best = self.inserts::<C>(figure, &people, &new, statement_rows)?;
            self.report::<C>(figure, &best, statement_rows, stolen_ms() - stolen);
        }
        self.reads::<C>(&people, &new, statement_rows)
    }

    /// The number of repeats; more for fewer rows, but equal for all contenders.
    fn repeats(&self) -> usize {
        (60_000 / self.rows).clamp(3, 8)
    }

    /// Opens the contender at a new place, calls `work` with it and removes the place.
    fn with<C: Contender, T>(&self, work: impl FnOnce(&mut C) -> Result<T>) -> Result<T> {
        // A new name each time, because a peer with its own thread may close its file after it was
        // dropped.
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let place = Place::new(self.setting, &self.folder, NUMBER.fetch_add(1, Ordering::Relaxed));
        if !matches!(self.setting, Setting::Postgres | Setting::Mariadb) {
            place.remove();
        }
        place.make()?;
        let result = C::open(&place).and_then(|mut contender| work(&mut contender));
        place.remove();
        result
    }

    /// Returns the number of rows per statement with which this contender inserts fastest.
    fn best_statement_size<C: Contender>(
        &self,
        people: &[Person],
        new: &[C::New],
    ) -> Result<usize> {
        let new = &new[..new.len().min(TRIAL_ROWS)];
        let mut fastest = (Duration::MAX, 1);
        // Each size is tried three times, so that neither a cold start nor a disturbance decides.
        for _ in 0..3 {
            for &statement_rows in C::STATEMENT_ROWS {
                let best = self.insert_repeat::<C>(
                    Figure::InsertBatchTransaction,
                    people,
                    new,
                    statement_rows,
                )?;
                let per_row = best.elapsed / best.rows as u32;
                fastest = fastest.min((per_row, statement_rows));
                if std::env::var_os("BENCH_ORM_VERBOSE").is_some() {
                    eprintln!(
                        "{}: {statement_rows} rows per statement: {per_row:?} per row",
                        C::NAME
                    );
                }
            }
        }
        Ok(fastest.1)
    }

    fn inserts<C: Contender>(
        &self,
        figure: Figure,
        people: &[Person],
        new: &[C::New],
        statement_rows: usize,
    ) -> Result<Best> {
        let mut best: Option<Best> = None;
        for _ in 0..self.repeats() {
            let repeat = self.insert_repeat::<C>(figure, people, new, statement_rows)?;
            best = Some(match best {
                Some(best) if best.rate() >= repeat.rate() => best,
                _ => repeat,
            });
        }
        best.ok_or_else(|| "no repeat was made".into())
    }

    /// Fills a new store once, timed, then checks every row.
    fn insert_repeat<C: Contender>(
        &self,
        figure: Figure,
        people: &[Person],
        new: &[C::New],
        statement_rows: usize,
    ) -> Result<Best> {
        self.with::<C, _>(|contender| {
            let (waited, start) = (waited_ns(), Instant::now());
            let rows = match figure {
                Figure::InsertOne => insert_each(contender, new, start, self.limit)?,
                Figure::InsertTransaction => {
                    contender.begin()?;
                    let rows = insert_each(contender, new, start, self.limit)?;
                    contender.commit()?;
                    rows
                }
                Figure::InsertBatch => insert_batches(
                    contender,
                    new,
                    statement_rows,
                    statement_rows < BATCH_ROWS,
                    start,
                    self.limit,
                )?,
                _ => {
                    contender.begin()?;
                    let rows =
                        insert_batches(contender, new, statement_rows, false, start, self.limit)?;
                    contender.commit()?;
                    rows
                }
            };
            let elapsed = start.elapsed();
            let waited = Duration::from_nanos(waited_ns() - waited);
            check_list::<C>(&contender.list()?, &people[..rows])?;
            Ok(Best { rows, elapsed, waited })
        })
    }

    fn reads<C: Contender>(
        &self,
        people: &[Person],
        new: &[C::New],
        statement_rows: usize,
    ) -> Result<()> {
        self.with::<C, _>(|contender| {
            contender.begin()?;
            for batch in new.chunks(BATCH_ROWS) {
                contender.insert_batch(batch, statement_rows)?;
            }
            contender.commit()?;
            // Also warms the page cache.
            check_list::<C>(&contender.list()?, people)?;

            for &figure in C::FIGURES.iter().filter(|figure| !figure.is_insert()) {
                let stolen = stolen_ms();
                let mut best: Option<Best> = None;
                for repeat in 0..self.repeats() {
                    let repeat = match figure {
                        Figure::ReadById => self.read_each(contender, people, repeat as u64)?,
                        Figure::ListObjects => list(contender, people)?,
                        _ => scan(contender, people)?,
                    };
                    best = Some(match best {
                        Some(best) if best.rate() >= repeat.rate() => best,
                        _ => repeat,
                    });
                }
                let best = best.ok_or("no repeat was made")?;
                self.report::<C>(figure, &best, statement_rows, stolen_ms() - stolen);
            }
            Ok(())
        })
    }

    fn read_each<C: Contender>(
        &self,
        contender: &mut C,
        people: &[Person],
        seed: u64,
    ) -> Result<Best> {
        let mut ids: Vec<i64> = (1..=people.len() as i64).collect();
        Random::new(seed).shuffle(&mut ids);
        let (mut sum, mut rows) = (Sum::default(), 0);
        let (waited, start) = (waited_ns(), Instant::now());
        for slice in ids.chunks(SLICE) {
            contender.read_each(slice, &mut sum)?;
            rows += slice.len();
            if start.elapsed() > self.limit {
                break;
            }
        }
        let elapsed = start.elapsed();
        let waited = Duration::from_nanos(waited_ns() - waited);
        check_sum::<C>(sum, ids[..rows].iter().map(|&id| &people[id as usize - 1]))?;
        Ok(Best { rows, elapsed, waited })
    }

    fn report<C: Contender>(
        &self,
        figure: Figure,
        best: &Best,
        statement_rows: usize,
        stolen_ms: u64,
    ) {
        println!(
            "{{\"contender\":\"{}\",\"setting\":\"{}\",\"rows\":{},\"figure\":\"{}\",\"done\":{},\"seconds\":{:.9},\
             \"statement_rows\":{statement_rows},\"waited_ms\":{:.3},\"stolen_ms\":{stolen_ms}}}",
            C::NAME,
            self.setting.name(),
            self.rows,
            figure.name(),
            best.rows,
            best.elapsed.as_secs_f64(),
            best.waited.as_secs_f64() * 1e3,
        );
    }
}

impl Best {
    /// Rows per second of CPU time, by which the better one of two repeats is selected.
    fn rate(&self) -> f64 {
        self.rows as f64 / self.elapsed.saturating_sub(self.waited).as_secs_f64().max(1e-9)
    }
}

fn insert_each<C: Contender>(
    contender: &mut C,
    new: &[C::New],
    start: Instant,
    limit: Duration,
) -> Result<usize> {
    let (mut rows, mut last_id) = (0, 0);
    for slice in new.chunks(SLICE) {
        last_id = contender.insert_each(slice)?;
        rows += slice.len();
        if start.elapsed() > limit {
            break;
        }
    }
    if last_id != rows as i64 {
        return Err(format!("the last of {rows} inserted rows got the id {last_id}").into());
    }
    Ok(rows)
}

/// With `atomic`, a batch of several statements gets a transaction.
fn insert_batches<C: Contender>(
    contender: &mut C,
    new: &[C::New],
    statement_rows: usize,
    atomic: bool,
    start: Instant,
    limit: Duration,
) -> Result<usize> {
    let mut rows = 0;
    for batch in new.chunks(BATCH_ROWS) {
        if atomic {
            contender.begin()?;
        }
        contender.insert_batch(batch, statement_rows)?;
        if atomic {
            contender.commit()?;
        }
        rows += batch.len();
        if start.elapsed() > limit {
            break;
        }
    }
    Ok(rows)
}

fn list<C: Contender>(contender: &mut C, people: &[Person]) -> Result<Best> {
    let (waited, start) = (waited_ns(), Instant::now());
    let rows = contender.list()?;
    let elapsed = start.elapsed();
    let waited = Duration::from_nanos(waited_ns() - waited);
    check_list::<C>(&rows, people)?;
    Ok(Best { rows: rows.len(), elapsed, waited })
}

fn scan<C: Contender>(contender: &mut C, people: &[Person]) -> Result<Best> {
    let mut sum = Sum::default();
    let (waited, start) = (waited_ns(), Instant::now());
    contender.scan(&mut sum)?;
    let elapsed = start.elapsed();
    let waited = Duration::from_nanos(waited_ns() - waited);
    check_sum::<C>(sum, people.iter())?;
    Ok(Best { rows: people.len(), elapsed, waited })
}
