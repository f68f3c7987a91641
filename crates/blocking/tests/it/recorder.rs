//! A driver that records the statements of an engine, and answers as an empty database.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use marmota_blocking::{
    BlockingDriver, BlockingEngine, BlockingOptions, Dialect, LendRow, ReadAs, SqlConnection,
    SqlFailure, Transacting, WriteCount,
};
use marmota_model::{Error, ErrorKind, Value, ValueForm, ValueRef};
use marmota_store::engine::Capability;

/// The statements that were executed.
#[derive(Clone, Default)]
pub(crate) struct Record(Arc<Mutex<Vec<String>>>);

impl Record {
    /// Begins a part of the record.
    pub(crate) fn title(&self, title: &str) {
        self.add(format!("\n-- {title}"));
    }

    pub(crate) fn text(&self) -> String {
        self.0.lock().unwrap().join("\n").trim().to_owned() + "\n"
    }

    fn add(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }
}

/// Returns an engine that records its statements.
pub(crate) fn engine(dialect: &'static Dialect) -> (BlockingEngine<Recorder>, Record) {
    let record = Record::default();
    let capability = Capability::new("recorder", true).with_sql();
    let driver = Recorder { dialect, record: record.clone(), capability };
    (BlockingEngine::open(driver).unwrap(), record)
}

pub(crate) struct Recorder {
    dialect: &'static Dialect,
    record: Record,
    capability: Capability,
}

impl BlockingOptions for Recorder {
    fn parse(url: &str) -> Result<Self, Error> {
        Err(Error::new(ErrorKind::Unsupported, url.to_owned()))
    }

    fn into_driver(self) -> Result<Box<dyn BlockingDriver>, Error> {
        Ok(Box::new(self))
    }
}

impl BlockingDriver for Recorder {
    fn connect(&self) -> Result<Box<dyn SqlConnection>, SqlFailure> {
        let (dialect, record) = (self.dialect, self.record.clone());
        Ok(Box::new(RecordingConnection { dialect, record }))
    }

    fn place(&self) -> &str {
        "the record"
    }

    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn connections_max(&self) -> usize {
        1
    }

    fn lock_timeout(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn backup_tools(&self) -> &str {
        "nothing"
    }
}

struct RecordingConnection {
    dialect: &'static Dialect,
    record: Record,
}

impl SqlConnection for RecordingConnection {
    fn dialect(&self) -> &'static Dialect {
        self.dialect
    }

    fn id(&self) -> Option<u64> {
        None
    }

    fn is_broken(&self) -> bool {
        false
    }

    fn begin(&mut self, how: Transacting) -> Result<(), SqlFailure> {
        self.record.add(format!("-- begin: {how:?}"));
        Ok(())
    }

    fn end(&mut self, commits: bool) -> Result<(), SqlFailure> {
        self.record.add(if commits { "-- commit" } else { "-- rollback" }.to_owned());
        Ok(())
    }

    fn execute(&mut self, sql: &str) -> Result<(), SqlFailure> {
        // A connection is tested if it was idle.
        if sql != self.dialect.ping {
            self.record.add(format!("{sql};"));
        }
        Ok(())
    }

    fn run(
        &mut self,
        sql: &str,
        _: &[Value],
        read: ReadAs<'_>,
        take: LendRow<'_>,
    ) -> Result<WriteCount, SqlFailure> {
        self.record.add(format!("{sql};"));
        let returns_a_number = ["RETURNING", "OUTPUT", "CURRVAL", "last_insert_id", "get_lock"]
            .iter()
            .any(|word| sql.contains(word));
        if let ReadAs::Forms([form]) = read
            && returns_a_number
        {
            take(&[Some(match form {
                ValueForm::Text => ValueRef::Text("1"),
                _ => ValueRef::Int(1),
            })]);
        }
        Ok(WriteCount { rows: 1, id: 1 })
    }
}
