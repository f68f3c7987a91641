//! The operations that are measured on each table.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::super::growth::Growth;
use super::super::point::{once, repeated};
use super::subject::{CATEGORY_ROWS, Item, Subject, item};

/// The rows of a page.
const PAGE_ROWS: u64 = 50;

/// An operation, and how its time is expected to grow.
pub(crate) struct Measure {
    pub(crate) name: &'static str,
    growth: Growth,
    /// The growth on the memory engine, and on SQLite, where it differs.
    in_memory: Growth,
    in_sqlite: Growth,
    /// Whether servers have no such operation.
    pub(crate) of_files: bool,
    /// Measures a table.
    pub(crate) run: fn(&mut Subject) -> Result<Duration>,
}

impl Measure {
    const fn new(
        name: &'static str,
        growth: Growth,
        run: fn(&mut Subject) -> Result<Duration>,
    ) -> Self {
        Self { name, growth, in_memory: growth, in_sqlite: growth, of_files: false, run }
    }

    const fn in_memory(self, growth: Growth) -> Self {
        Self { in_memory: growth, ..self }
    }

    const fn in_sqlite(self, growth: Growth) -> Self {
        Self { in_sqlite: growth, ..self }
    }

    const fn of_files(self) -> Self {
        Self { of_files: true, ..self }
    }

    pub(crate) fn growth(&self, engine: &str) -> Growth {
        match engine {
            "memory" => self.in_memory,
            "sqlite" => self.in_sqlite,
            _ => self.growth,
        }
    }
}

/// The operations. Those that close the store come last.
pub(crate) const MEASURES: [Measure; 11] = [
    Measure::new("get by key", Growth::Logarithmic, get),
    Measure::new("insert a row", Growth::Logarithmic, insert),
    Measure::new("insert 500 rows", Growth::Logarithmic, insert_many),
    Measure::new("first page of 50", Growth::Constant, first_page),
    Measure::new("last page of 50", Growth::Logarithmic, last_page),
    Measure::new("50 rows by an index", Growth::Logarithmic, by_index),
    Measure::new("a row without an index", Growth::Linear, without_index),
    Measure::new("count", Growth::Linear, count).in_memory(Growth::Constant),
    Measure::new("backup", Growth::Linear, backup).of_files(),
    Measure::new("open", Growth::Constant, open).in_memory(Growth::Linear),
    // SQLite reads all rows of a STRICT table to check the types of the new column.
    Measure::new("add a column", Growth::Constant, add_column)
        .in_memory(Growth::Linear)
        .in_sqlite(Growth::Linear),
];

fn get(subject: &mut Subject) -> Result<Duration> {
    let (store, rows) = (subject.store()?, subject.rows);
    repeated(2_000, |turn| {
        let id = (turn.wrapping_mul(7_919) % rows + 1) as i64;
        ensure!(store.get::<Item>(id).run()?.id == id);
        Ok(())
    })
}

fn insert(subject: &mut Subject) -> Result<Duration> {
    let (store, rows) = (subject.store()?, subject.rows);
    repeated(500, |turn| Ok(store.insert(&item(rows + turn)).run().map(drop)?))
}

fn insert_many(subject: &mut Subject) -> Result<Duration> {
    let (store, rows) = (subject.store()?, subject.rows);
    repeated(5, |turn| {
        let first = rows + 500 * (turn + 1);
        let items: Vec<Item> = (first..first + 500).map(item).collect();
        Ok(store.insert_many(&items).run().map(drop)?)
    })
}

fn first_page(subject: &mut Subject) -> Result<Duration> {
    let store = subject.store()?;
    repeated(200, |_| {
        ensure!(store.list::<Item>().limit(PAGE_ROWS).run()?.len() == PAGE_ROWS as usize);
        Ok(())
    })
}

fn last_page(subject: &mut Subject) -> Result<Duration> {
    let store = subject.store()?;
    let before = store.get::<Item>((subject.rows - PAGE_ROWS) as i64).run()?;
    repeated(200, |_| {
        let page = store.list::<Item>().after(&before).limit(PAGE_ROWS).run()?;
        ensure!(page.len() == PAGE_ROWS as usize);
        Ok(())
    })
}

fn by_index(subject: &mut Subject) -> Result<Duration> {
    let store = subject.store()?;
    let categories = subject.rows / CATEGORY_ROWS - 1;
    repeated(200, |turn| {
        let category = (turn.wrapping_mul(7_919) % categories) as i64;
        let found = store.list::<Item>().filter(Item::CATEGORY.eq(category)).run()?;
        ensure!(found.len() as u64 == CATEGORY_ROWS);
        Ok(())
    })
}

fn without_index(subject: &mut Subject) -> Result<Duration> {
    let store = subject.store()?;
    repeated(3, |_| {
        let found = store.list::<Item>().filter(Item::AMOUNT.lt(0)).run()?;
        ensure!(found.is_empty());
        Ok(())
    })
}

fn count(subject: &mut Subject) -> Result<Duration> {
    let (store, rows) = (subject.store()?, subject.rows);
    repeated(3, |_| {
        ensure!(store.count::<Item>().run()? >= rows);
        Ok(())
    })
}

fn backup(subject: &mut Subject) -> Result<Duration> {
    let file = subject.new_file("backup");
    let store = subject.store()?;
    once(|| Ok(store.backup_to(&file).map(drop)?))
}

fn open(subject: &mut Subject) -> Result<Duration> {
    subject.close()?;
    once(|| subject.open())
}

fn add_column(subject: &mut Subject) -> Result<Duration> {
    subject.close()?;
    once(|| subject.open_with_column())
}
