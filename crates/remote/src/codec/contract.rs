//! The greeting: both sides describe their tables, so that a client built for other models gets an
//! error that names the field that differs, instead of misreading rows.
//!
//! The description covers the layout of a row: the fields in their order, their kinds, nullability,
//! actions of deletes, roles and defaults. Rules and indexes are not included, since only the server checks them.

use std::fmt::Write as _;

use marmota_model::{Error, ErrorKind, Field, Kind, OnDelete, Result, Table};
use marmota_store::engine::{Capability, ReadsMeanwhile};

use super::bytes::{Bytes, broken, put_bytes, put_unsigned};

/// The version of this protocol.
pub(crate) const VERSION: u64 = 3;
/// The value of the `Upgrade` header.
pub(crate) const UPGRADE: &str = "marmota";
/// The route of the endpoint, after the prefix.
pub(crate) const PATH: &str = "/-/operations";
/// The maximum size of a credential in bytes.
pub(crate) const CREDENTIAL_BYTES_MAX: usize = 8 * 1_024;
/// The maximum number of tables that a client may name.
const TABLES_MAX: usize = 4_096;

/// The client's models match the server's.
pub(crate) const WELCOME: u8 = 0;
/// Tables differ; the server's descriptions follow.
pub(crate) const DIFFERS: u8 = 2;

const MAGIC: &[u8; 6] = b"mrmta\n";

/// The first packet of a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hello<'b> {
    /// The credential; empty for none.
    pub(crate) credential: &'b [u8],
    /// The client's tables, in the order of their numbers.
    pub(crate) tables: Vec<(&'b str, u64)>,
    /// Requests the names of the tables that are served to it.
    pub(crate) lists_tables: bool,
}

/// The limits and guarantees of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Welcome {
    /// The guarantees of the served store.
    pub(crate) guarantees: Guarantees,
    /// The maximum size of a packet in bytes.
    pub(crate) packet_bytes_max: u64,
    /// The maximum number of concurrent operations on a connection.
    pub(crate) operations_max: u64,
}

/// The part of a server's [`Capability`] that applies to its clients, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Guarantees {
    flags: u64,
    reads_meanwhile: ReadsMeanwhile,
}

const DURABLE: u64 = 1;
const PERSISTENT: u64 = 1 << 1;
const TRANSACTIONS: u64 = 1 << 2;
const ROW_LOCKS: u64 = 1 << 3;
const KEY_GAPS: u64 = 1 << 4;
const REUSES_LAST_KEY: u64 = 1 << 5;
const ESTIMATES: u64 = 1 << 6;
const ON_DELETE: u64 = 1 << 8;
const PARTIAL_INDEXES: u64 = 1 << 9;
const GENERATED_COLUMNS: u64 = 1 << 10;

impl Guarantees {
    pub(crate) fn of(capability: &Capability) -> Self {
        let flag = |has: bool, flag: u64| if has { flag } else { 0 };
        let flags = flag(capability.durable, DURABLE)
            | flag(capability.persistent, PERSISTENT)
            | flag(capability.transactions, TRANSACTIONS)
            | flag(capability.row_locks, ROW_LOCKS)
            | flag(capability.key_gaps, KEY_GAPS)
            | flag(capability.reuses_last_key, REUSES_LAST_KEY)
            | flag(capability.estimates, ESTIMATES)
            | flag(capability.on_delete, ON_DELETE)
            | flag(capability.partial_indexes, PARTIAL_INDEXES)
            | flag(capability.generated_columns, GENERATED_COLUMNS);
        Self { flags, reads_meanwhile: capability.reads_meanwhile }
    }

    /// Returns the capability of a client of this transport.
    pub(crate) fn of_client(self, name: &'static str) -> Capability {
        let mut server = Capability::new(name, self.flags & DURABLE != 0);
        server.persistent = self.flags & PERSISTENT != 0;
        server.transactions = self.flags & TRANSACTIONS != 0;
        server.row_locks = self.flags & ROW_LOCKS != 0;
        server.key_gaps = self.flags & KEY_GAPS != 0;
        server.reuses_last_key = self.flags & REUSES_LAST_KEY != 0;
        server.estimates = self.flags & ESTIMATES != 0;
        server.on_delete = self.flags & ON_DELETE != 0;
        server.partial_indexes = self.flags & PARTIAL_INDEXES != 0;
        server.generated_columns = self.flags & GENERATED_COLUMNS != 0;
        server.reads_meanwhile = self.reads_meanwhile;
        server.of_client(name)
    }

    /// Returns a guarantee of another server that this one does not have, and that callers rely on.
    /// Partial indexes and generated columns are not among them: a server whose engine has none does
    /// not start with them.
    pub(crate) fn lost(self, other: Self) -> Option<&'static str> {
        let names = [
            (TRANSACTIONS, "transactions"),
            (ON_DELETE, "actions of deletes"),
            (PERSISTENT, "that rows survive a close"),
            (DURABLE, "that acknowledged writes survive the process"),
        ];
        let lost = other.flags & !self.flags;
        names.into_iter().find(|(flag, _)| lost & flag != 0).map(|(_, name)| name)
    }

    fn put(self, out: &mut Vec<u8>) {
        put_unsigned(out, self.flags);
        out.push(match self.reads_meanwhile {
            ReadsMeanwhile::Before => 0,
            ReadsMeanwhile::WaitForTables => 1,
            ReadsMeanwhile::Wait => 2,
        });
    }

    fn read(read: &mut Bytes<'_>) -> Result<Self> {
        let flags = read.unsigned()?;
        let reads_meanwhile = match read.u8()? {
            0 => ReadsMeanwhile::Before,
            1 => ReadsMeanwhile::WaitForTables,
            2 => ReadsMeanwhile::Wait,
            _ => return Err(broken("declares reads that this client does not know")),
        };
        Ok(Self { flags, reads_meanwhile })
    }
}

fn describe(field: &Field) -> String {
    let Field { kind, nullable, role, default, on_delete, .. } = field;
    let mut text = match kind {
        Kind::Enum { variants, stored } => {
            let mut text = format!("enum stored as {stored:?} of");
            for variant in variants.iter() {
                let _ = write!(text, " {}={}", variant.name, variant.number);
            }
            text
        }
        Kind::Reference { table, key } => format!("reference to {table} by {key:?}"),
        Kind::Int { min, max } => format!("integer {min} to {max}"),
        Kind::Text { chars_max, collation } => format!("text of {chars_max}, {collation:?}"),
        kind => kind.name().to_owned(),
    };
    if *nullable {
        text.push_str(", may be null");
    }
    if *on_delete != OnDelete::Restrict {
        let _ = write!(text, ", {on_delete} on a delete");
    }
    let _ = write!(text, ", {role:?}");
    if let Some(default) = default {
        let _ = write!(text, ", else {default:?}");
    }
    text
}

/// Returns the fields of a table, each with a description.
pub(crate) fn lines(table: &Table) -> Vec<(String, String)> {
    table.fields().iter().map(|field| (field.name.to_string(), describe(field))).collect()
}

/// Returns a hash of a table's description (FNV-1a). It detects mistakes; an attacker gains nothing
/// from a collision.
pub(crate) fn hash(table: &Table) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for (name, line) in lines(table) {
        for byte in name.bytes().chain([0]).chain(line.bytes()).chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

pub(crate) fn put_hello<'t>(
    out: &mut Vec<u8>,
    credential: &[u8],
    tables: impl ExactSizeIterator<Item = (&'t str, u64)>,
    lists_tables: bool,
) {
    out.extend_from_slice(MAGIC);
    put_unsigned(out, VERSION);
    put_bytes(out, credential);
    put_unsigned(out, tables.len() as u64);
    for (name, hash) in tables {
        put_bytes(out, name.as_bytes());
        out.extend_from_slice(&hash.to_le_bytes());
    }
    out.push(lists_tables.into());
}

/// Appends the names of the served tables, after a welcome.
pub(crate) fn put_names<'t>(out: &mut Vec<u8>, names: impl ExactSizeIterator<Item = &'t str>) {
    put_unsigned(out, names.len() as u64);
    names.for_each(|name| put_bytes(out, name.as_bytes()));
}

pub(crate) fn put_welcome(out: &mut Vec<u8>, welcome: Welcome) {
    out.push(WELCOME);
    put_unsigned(out, VERSION);
    put_unsigned(out, welcome.packet_bytes_max);
    put_unsigned(out, welcome.operations_max);
    welcome.guarantees.put(out);
}

/// Appends the server's tables that differ from the client's.
pub(crate) fn put_differences(out: &mut Vec<u8>, tables: &[&Table]) {
    out.push(DIFFERS);
    put_unsigned(out, tables.len() as u64);
    for table in tables {
        put_bytes(out, table.name().as_bytes());
        let lines = lines(table);
        put_unsigned(out, lines.len() as u64);
        for (name, line) in lines {
            put_bytes(out, name.as_bytes());
            put_bytes(out, line.as_bytes());
        }
    }
}

impl<'b> Hello<'b> {
    pub(crate) fn read(body: &'b [u8]) -> Result<Self> {
        let mut read = Bytes::new(body);
        if read.array::<6>().ok().as_ref() != Some(MAGIC) {
            return Err(broken("is not the greeting of a Marmota client"));
        }
        let version = read.unsigned()?;
        if version != VERSION {
            let message = format!(
                "the client uses version {version} of the protocol, but the server uses version \
                 {VERSION}: use the same release on both sides"
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let credential = read.bytes()?;
        if credential.len() > CREDENTIAL_BYTES_MAX {
            return Err(broken("has a credential that is too long"));
        }
        let count = read.count()?;
        if count > TABLES_MAX {
            return Err(broken("names too many tables"));
        }
        let table =
            |read: &mut Bytes<'b>| Ok((read.text()?, u64::from_le_bytes(read.array::<8>()?)));
        let tables = (0..count).map(|_| table(&mut read)).collect::<Result<_>>()?;
        let lists_tables = read.bool()?;
        read.end()?;
        Ok(Self { credential, tables, lists_tables })
    }
}

/// Reads the server's answer to the hello of a client with these tables, and the names of the
/// served tables if the hello requests them.
pub(crate) fn read_welcome<'t>(
    body: &[u8],
    find: impl Fn(&str) -> Option<&'t Table>,
) -> Result<(Welcome, Vec<String>)> {
    let mut read = Bytes::new(body);
    match read.u8()? {
        WELCOME => {
            let version = read.unsigned()?;
            if version != VERSION {
                let message = format!(
                    "the server uses version {version} of the protocol, but the client uses \
                     version {VERSION}: use the same release on both sides"
                );
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            let (packet_bytes_max, operations_max) = (read.unsigned()?, read.unsigned()?);
            let guarantees = Guarantees::read(&mut read)?;
            let mut names = Vec::new();
            if !read.rest().is_empty() {
                for _ in 0..read.count()? {
                    names.push(read.text()?.to_owned());
                }
                read.end()?;
            }
            Ok((Welcome { guarantees, packet_bytes_max, operations_max }, names))
        }
        super::outcome::FAILED => Err(read.error()?),
        DIFFERS => {
            for _ in 0..read.count()? {
                let name = read.text()?;
                let mut theirs = Vec::new();
                for _ in 0..read.count()? {
                    theirs.push((read.text()?, read.text()?));
                }
                if let Some(table) = find(name) {
                    return Err(difference(table, &theirs));
                }
            }
            Err(broken("reports that tables differ, but not how"))
        }
        _ => Err(broken("is not an answer to a hello")),
    }
}

fn difference(table: &Table, theirs: &[(&str, &str)]) -> Error {
    let ours = lines(table);
    let place = (0..ours.len().max(theirs.len())).find(|&place| {
        let ours = ours.get(place).map(|(name, line)| (&**name, &**line));
        ours != theirs.get(place).copied()
    });
    let field = |line: Option<(&str, &str)>| match line {
        Some((name, line)) => format!("`{name}` ({line})"),
        None => "no field".to_owned(),
    };
    let place = place.unwrap_or_default();
    let mine = field(ours.get(place).map(|(name, line)| (&**name, &**line)));
    let message = format!(
        "the table `{}` differs on the server: field {place} is {mine} on the client and {} on the \
         server; build the client with the server's models",
        table.name(),
        field(theirs.get(place).copied())
    );
    Error::new(ErrorKind::Invalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use marmota_model::{Role, Schema};
    use proptest::prelude::*;

    fn table(kind: Kind) -> Table {
        let id = Field::new("id", Kind::I64).role(Role::Key);
        Table::new(Schema::new("person", vec![id, Field::new("year", kind)])).unwrap()
    }

    #[test]
    fn a_difference_names_its_field() {
        let (ours, theirs) = (table(Kind::I64), table(Kind::Float));
        assert_ne!(hash(&ours), hash(&theirs));
        assert_eq!(hash(&ours), hash(&table(Kind::I64)));
        let mut out = Vec::new();
        put_differences(&mut out, &[&theirs]);
        let error = read_welcome(&out, |name| (name == "person").then_some(&ours)).unwrap_err();
        let message = error.message();
        assert!(message.contains("`person`") && message.contains("`year` (float"), "{message}");
    }

    #[test]
    fn a_hello_comes_back() {
        let mut out = Vec::new();
        put_hello(&mut out, b"secret", [("person", 7), ("city", 9)].into_iter(), true);
        let hello = Hello::read(&out).unwrap();
        assert_eq!(hello.credential, b"secret");
        assert_eq!(hello.tables, [("person", 7), ("city", 9)]);
        assert!(hello.lists_tables);
        let mut out = Vec::new();
        let capability = Capability::new("any", true)
            .with_row_locks()
            .with_key_gaps()
            .without_transactions()
            .with_reads_meanwhile(ReadsMeanwhile::WaitForTables);
        let guarantees = Guarantees::of(&capability);
        assert_eq!(guarantees.of_client("here"), capability.of_client("here"));
        let welcome = Welcome { guarantees, packet_bytes_max: 5, operations_max: 9 };
        put_welcome(&mut out, welcome);
        assert_eq!(read_welcome(&out, |_| None).unwrap(), (welcome, Vec::new()));
        put_names(&mut out, ["city", "person"].into_iter());
        let names = vec!["city".to_owned(), "person".to_owned()];
        assert_eq!(read_welcome(&out, |_| None).unwrap(), (welcome, names));
    }

    #[test]
    fn only_guarantees_that_callers_rely_on_are_lost() {
        let first = Guarantees::of(&Capability::new("any", true));
        let without = |capability: Capability| Guarantees::of(&capability).lost(first);
        let any = || Capability::new("any", true);
        assert_eq!(without(any()), None);
        assert_eq!(without(any().without_partial_indexes()), None);
        assert_eq!(without(any().without_transactions()), Some("transactions"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = Hello::read(&bytes);
            let _ = Hello::read(&[&MAGIC[..], &[VERSION as u8], &bytes].concat());
            let _ = read_welcome(&bytes, |_| None);
        }
    }
}
