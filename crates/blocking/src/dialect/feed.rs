//! The change feed of MariaDB: its tables, triggers and statements.
//!
//! A trigger of each row encodes the row before and after, in the format that `changes/rows.rs`
//! decodes. There are two ways into the table of commits:
//!
//! - *Own connections* have a temporary table `marmota_pending`, which hides the permanent one. It
//!   is undone with the transaction and its savepoints. The statement that ends the transaction
//!   numbers the changes and commits.
//! - *Other programs* end their transactions without it. Their changes are in the table
//!   `marmota_foreign`, and are numbered before a commit that may depend on them, and before the
//!   table of commits is read.
//!
//! Numbers are assigned under the lock of the row in `marmota_commit_number`, which is held until the
//! transaction has ended. So numbers have no gaps, and a reader that sees one sees all before it. A
//! transaction that has the lock waits for no other.

use marmota_model::{Field, Kind, ValueForm};
use marmota_sql::quoted;
use marmota_store::change::RecordedTable;

/// How a database records changes for the change feed. Statements are executed by connections of the
/// engine.
#[derive(Debug)]
pub struct FeedRules {
    /// Statements that create the tables.
    pub tables: &'static [&'static str],
    /// The names of these tables.
    pub table_names: &'static [&'static str],
    /// Statements that prepare a connection.
    pub connection: &'static [&'static str],
    /// Sets the actor of the next changes: `{}` is a text or NULL.
    pub actor: &'static str,
    /// Numbers the changes of the open transaction and of other programs, commits, and selects the
    /// number of the transaction. The transaction must see the commits before each statement.
    pub commit_all: &'static str,
    /// The same without the changes of other programs, for any transaction.
    pub commit_own: &'static str,
    /// Numbers the changes of other programs, in a transaction of its own.
    pub collect: &'static str,
    /// Selects name and table of the triggers.
    pub triggers: &'static str,
    /// Returns name and definition of the triggers of a table.
    pub define: fn(&RecordedTable) -> Vec<(String, String)>,
}

/// Numbers the changes in a table: one commit, or several if they do not fit a value. A change that
/// extends over the end of a part is a part of its own.
macro_rules! number {
    ($from:literal) => {
        concat!(
            "SELECT sum(length(changes)) INTO size FROM ",
            $from,
            "; IF size IS NOT NULL THEN SELECT number INTO last FROM marmota_commit_number WHERE id=1 FOR UPDATE; \
             IF size<=most THEN INSERT INTO marmota_commit (id,at,bytes,changes) \
             SELECT last+1,utc_timestamp(6),size,\
             group_concat(changes ORDER BY id SEPARATOR '') FROM ",
            $from,
            "; SET last=last+1; ELSE INSERT INTO marmota_commit (id,at,bytes,changes) \
             SELECT last+row_number() OVER (ORDER BY first),utc_timestamp(6),length(part),part FROM \
             (SELECT min(id) AS first,group_concat(changes ORDER BY id SEPARATOR '') AS part FROM \
             (SELECT id,changes,sum(length(changes)) OVER (ORDER BY id) AS upto FROM ",
            $from,
            ") AS r GROUP BY (upto-length(changes)) DIV most,upto DIV most) AS p; \
             SET last=last+row_count(); END IF; UPDATE marmota_commit_number SET number=last WHERE id=1; DELETE FROM ",
            $from,
            "; END IF;"
        )
    };
}

macro_rules! variables {
    () => {
        "DECLARE last,size BIGINT; \
         DECLARE most BIGINT DEFAULT least(4194304,@@max_allowed_packet DIV 2); "
    };
}

/// Numbers the changes of other programs. Those that are visible at one time have complete
/// transactions.
macro_rules! collect {
    ($begin:literal, $end:literal) => {
        concat!(
            // A subquery of IF would lock the rows that it reads.
            "SELECT count(*) INTO size FROM (SELECT 1 FROM marmota_foreign LIMIT 1) AS f; \
             IF size>0 THEN ",
            $begin,
            "SELECT number INTO last FROM marmota_commit_number WHERE id=1 FOR UPDATE; \
             INSERT INTO marmota_collected (id,changes) SELECT id,changes FROM marmota_foreign; \
             DELETE f FROM marmota_collected c STRAIGHT_JOIN marmota_foreign f ON f.id=c.id; ",
            number!("marmota_collected"),
            $end,
            " SET last=NULL; END IF;"
        )
    };
}

macro_rules! commit {
    ($collect:expr) => {
        concat!(
            "BEGIN NOT ATOMIC ",
            variables!(),
            $collect,
            number!("marmota_pending"),
            " SET @marmota_actor=NULL; COMMIT; SELECT last; END"
        )
    };
}

/// The feed of MariaDB.
pub(super) const MARIADB_FEED: FeedRules = FeedRules {
    tables: &[
        "CREATE TABLE IF NOT EXISTS marmota_commit_number (id TINYINT NOT NULL PRIMARY KEY,\
         number BIGINT NOT NULL) ENGINE=InnoDB",
        "INSERT INTO marmota_commit_number (id,number) SELECT 1,coalesce(max(id),0) FROM marmota_commit \
         HAVING NOT EXISTS(SELECT 1 FROM marmota_commit_number)",
        "CREATE TABLE IF NOT EXISTS marmota_foreign (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,\
         changes LONGBLOB NOT NULL) ENGINE=InnoDB",
        "CREATE TABLE IF NOT EXISTS marmota_pending (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,\
         changes LONGBLOB NOT NULL) ENGINE=InnoDB",
    ],
    table_names: &["marmota_commit_number", "marmota_foreign", "marmota_pending"],
    connection: &[
        "CREATE TEMPORARY TABLE marmota_pending (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,\
         changes LONGBLOB NOT NULL) ENGINE=InnoDB",
        "CREATE TEMPORARY TABLE marmota_collected (id BIGINT NOT NULL PRIMARY KEY,\
         changes LONGBLOB NOT NULL) ENGINE=InnoDB",
        "SET @marmota_feed=1,SESSION group_concat_max_len=1073741824",
    ],
    actor: "SET @marmota_actor={}",
    commit_all: commit!(collect!("", "")),
    commit_own: commit!(""),
    collect: concat!(
        "BEGIN NOT ATOMIC ",
        variables!(),
        collect!("START TRANSACTION; ", " COMMIT;"),
        " END"
    ),
    triggers: "SELECT trigger_name,event_object_table FROM information_schema.triggers \
               WHERE event_object_schema=database() AND trigger_name LIKE 'marmota:%'",
    define,
};

/// The version of the triggers, in their names.
const VERSION: u32 = 1;

fn define(table: &RecordedTable) -> Vec<(String, String)> {
    let none = "'0:'";
    let (new, old) = (row(table, "NEW", false), row(table, "OLD", false));
    let (before, after) = (row(table, "OLD", true), row(table, "NEW", true));
    vec![
        trigger(table, "i", "INSERT", [none, &new]),
        trigger(table, "u", "UPDATE", [&before, &after]),
        trigger(table, "d", "DELETE", [&old, none]),
    ]
}

/// Returns the name and the definition of a trigger, which records the rows `before` and `after`.
fn trigger(
    table: &RecordedTable,
    kind: &str,
    event: &str,
    [before, after]: [&str; 2],
) -> (String, String) {
    let number = table.number();
    let name = format!("marmota:{VERSION}:{number}:{kind}");
    let (trigger, on) = (quoted(&name), quoted(table.table().name()));
    let actor = field_sql("convert(@marmota_actor using utf8mb4)");
    let sql = format!(
        "CREATE TRIGGER {trigger} AFTER {event} ON {on} FOR EACH ROW BEGIN \
         DECLARE before_row LONGBLOB DEFAULT {before}; DECLARE after_row LONGBLOB DEFAULT {after}; \
         DECLARE changed LONGBLOB DEFAULT \
         concat(x'00','{kind}{number}:',{actor},before_row,after_row); \
         IF changed IS NULL THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT=\
         'the row before and after the change are larger than max_allowed_packet of the server'; \
         ELSEIF before_row<>after_row THEN IF @marmota_feed=1 THEN \
         INSERT INTO marmota_pending (changes) VALUES (changed); ELSE \
         INSERT INTO marmota_foreign (changes) VALUES (changed); END IF; END IF; END"
    );
    (name, sql)
}

/// Returns the SQL of a row: the number of its values, and the values.
fn row(table: &RecordedTable, of: &str, digests: bool) -> String {
    let fields = table.table().fields().iter();
    let values = fields.map(|field| value_sql(field, of, digests)).collect::<Vec<_>>().join(",");
    format!("concat('{}:',{values})", table.table().fields().len())
}

/// Returns the SQL of a recorded value. The value of a blob is missing, or its digest if it has to be
/// compared.
fn value_sql(field: &Field, of: &str, digests: bool) -> String {
    let column = format!("{of}.{}", quoted(&field.name));
    match field.kind.form() {
        ValueForm::Blob if field.kind == Kind::Blob && !digests => "'-'".to_owned(),
        ValueForm::Blob if field.kind == Kind::Blob => field_sql(&format!("md5({column})")),
        ValueForm::Text | ValueForm::Json => {
            field_sql(&format!("cast(convert({column} using utf8mb4) as binary)"))
        }
        ValueForm::Uuid => field_sql(&format!("lower(hex({column}))")),
        // A single-precision column becomes the number that reads return.
        ValueForm::Float => field_sql(&format!("({column}+0e0)")),
        _ => field_sql(&column),
    }
}

/// Returns the SQL of a value with its length; `-` is NULL.
fn field_sql(value: &str) -> String {
    format!("if({value} IS NULL,'-',concat(length({value}),':',{value}))")
}
