//! The start of a primary: which database a target has, and whether this is its primary.

use marmota_model::{Error, ErrorKind, Result, Timestamp};
use marmota_store::log_copy::LogKind;

use crate::objects::envelope::Encoding;
use crate::objects::segment::{self, FORMAT, SEGMENTS, SegmentBody, SegmentHead};
use crate::objects::segment_reader::SegmentReader;
use crate::objects::target::Target;
use crate::state_file::{Role, StateFile};

/// A folder with an object for each segment that begins an epoch. Those segments are never deleted:
/// their numbers are what an old primary would use next.
pub(crate) const EPOCHS: &str = "epochs";

/// The identity of a primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) database: String,
    pub(crate) kind: LogKind,
    pub(crate) epoch: u64,
    /// The run of the process.
    pub(crate) writer: String,
}

/// Returns a random number in hexadecimal.
pub(crate) fn random() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::new(ErrorKind::Io, format!("the system has no random numbers: {error}"))
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the machine and the process, for messages.
pub(crate) fn host() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}

/// Returns the number of the last segment of a target, or 0.
///
/// # Errors
/// Those of the target.
pub(crate) fn last_index(target: &Target) -> Result<u64> {
    let listed = target.list(SEGMENTS, None)?;
    Ok(listed.iter().rev().find_map(|object| object.name.parse().ok()).unwrap_or(0))
}

/// Reads the head of a segment.
///
/// # Errors
/// [`ErrorKind::Engine`] if it is missing or damaged, with its name.
pub(crate) fn head_of(target: &Target, index: u64) -> Result<SegmentHead> {
    match target.get(&segment::object_name(index))? {
        Some(object) => segment::decode_head(index, &object),
        None => SegmentReader::default().require(target, index).map(|found| found.head),
    }
}

/// Makes this process the primary of a target, and returns the last segment. An empty target is
/// begun.
///
/// # Errors
/// [`ErrorKind::Conflict`] if the target has another database, or another primary has taken over.
pub(crate) fn claim(
    target: &Target,
    kind: LogKind,
    state: Option<&StateFile>,
    writer: &str,
) -> Result<(Identity, SegmentHead)> {
    let last = last_index(target)?;
    if last == 0 {
        let identity = Identity { database: random()?, kind, epoch: 1, writer: writer.to_owned() };
        let head = begin_epoch(target, &identity, 1, 1, 0)?;
        let head = head.ok_or_else(|| {
            let message = format!("another primary has just begun to write {}", target.url());
            Error::new(ErrorKind::Conflict, message)
        })?;
        return Ok((identity, head));
    }
    let head = head_of(target, last)?;
    check_kind(target.url(), head.kind, kind)?;
    let Some(state) = state.filter(|state| state.database == head.database) else {
        return Err(of_another(target, &head));
    };
    if state.role == Role::Replica {
        let message = format!(
            "this database is a replica: `marmota promote` makes it the primary of {}",
            target.url()
        );
        return Err(Error::new(ErrorKind::Conflict, message));
    }
    if state.epoch != head.epoch {
        return Err(fenced(target.url(), &head));
    }
    mark_epoch(target, &head)?;
    let writer = writer.to_owned();
    Ok((Identity { database: head.database.clone(), kind, epoch: head.epoch, writer }, head))
}

/// Writes the object that keeps the beginning of an epoch from being deleted.
fn mark_epoch(target: &Target, head: &SegmentHead) -> Result<()> {
    match head.begins_epoch {
        true => target.put(&format!("{EPOCHS}/{}", segment::file_name(head.index)), Vec::new()),
        false => Ok(()),
    }
}

/// Writes the segment that begins an epoch, after which `number` is the last number in the change
/// feed. Returns `None` if its number is taken.
///
/// # Errors
/// Those of the target.
pub(crate) fn begin_epoch(
    target: &Target,
    identity: &Identity,
    index: u64,
    chain: u64,
    number: u64,
) -> Result<Option<SegmentHead>> {
    let head = SegmentHead {
        format: FORMAT,
        kind: identity.kind,
        database: identity.database.clone(),
        epoch: identity.epoch,
        writer: identity.writer.clone(),
        host: host(),
        index,
        chain,
        begins_epoch: true,
        time_us: Timestamp::now().micros(),
        number,
        page_bytes: 0,
        commits: 0,
        pages: 0,
        log: None,
        encoding: Encoding::None,
        body_bytes: 0,
    };
    let object = segment::encode(head.clone(), &SegmentBody::default())?;
    if !target.put_new(&segment::object_name(index), object)? {
        return Ok(None);
    }
    mark_epoch(target, &head)?;
    Ok(Some(head))
}

/// Checks that a target has a database with the right kind of log.
///
/// # Errors
/// [`ErrorKind::Conflict`] if it has the other kind.
pub(crate) fn check_kind(url: &str, found: LogKind, expected: LogKind) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let (engine, scheme) = match found {
        LogKind::Pages => ("SQLite", "sqlite"),
        LogKind::Records => ("the memory engine", "memory"),
    };
    let message = format!(
        "{url} has a database of {engine}, which is of no use for another engine: use \
         `--db {scheme}:FILE`, or another target"
    );
    Err(Error::new(ErrorKind::Conflict, message))
}

/// Returns the error of a primary that was replaced.
#[cold]
pub(crate) fn fenced(url: &str, by: &SegmentHead) -> Error {
    let message = format!(
        "{url} has another primary (epoch {}, {}, since {}): this database is no longer the \
         primary and accepts no writes; send them to the new primary, and make this database a \
         replica of it (`marmota restore`, `--replica-of`)",
        by.epoch,
        by.host,
        time_text(by.time_us)
    );
    Error::new(ErrorKind::Conflict, message)
}

/// Returns a time as text.
pub(crate) fn time_text(micros: i64) -> String {
    Timestamp::from_micros(micros)
        .map_or_else(|_| "an unknown time".to_owned(), |at| at.to_string())
}

#[cold]
fn of_another(target: &Target, head: &SegmentHead) -> Error {
    let message = format!(
        "{} already has a replica of a database that is not this one (last written by {} at {}): \
         use an empty prefix, or restore that database and take it over with `marmota promote`",
        target.url(),
        head.host,
        time_text(head.time_us)
    );
    Error::new(ErrorKind::Conflict, message)
}
