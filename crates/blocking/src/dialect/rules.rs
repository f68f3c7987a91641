//! What a dialect consists of.
//!
//! In templates, `{}` is the name or the text, already quoted.

use marmota_model::ValueForm;

use super::feed::FeedRules;

/// How the SQL of a database differs from that of others.
#[derive(Clone, Debug)]
pub struct Dialect {
    /// The database, as in messages.
    pub name: &'static str,
    /// False if the dialect was written from the database's manual, and not run against a server.
    pub is_tested: bool,
    /// The types of columns.
    pub types: ColumnTypes,
    /// How texts are compared without regard to the case of A to Z, and searched.
    pub texts: TextRules,
    /// The values in statements.
    pub values: ValueRules,
    /// How statements that write differ.
    pub writes: WriteRules,
    /// Statements that define tables.
    pub definitions: DefinitionRules,
    /// The structure of the database, as statements.
    pub catalog: Catalog,
    /// Limits of statements.
    pub limits: StatementLimits,
    /// Statements that prepare a new connection.
    pub settings: &'static [&'static str],
    /// Sets the longest time that a write waits for a lock: `{}` is the number of these
    /// milliseconds.
    pub lock_timeout: Option<(&'static str, u64)>,
    /// A statement that only makes a round trip.
    pub ping: &'static str,
    /// The statement that ends the statement of a connection, `{}` is its number.
    pub kill: Option<&'static str>,
    /// The statement that selects the number of the connection.
    pub connection_id: Option<&'static str>,
    /// Limits the rows of a list, whose order is given.
    pub paging: &'static str,
    /// The ends of an ascending and a descending order, in which NULL sorts first and last.
    pub nulls: [&'static str; 2],
    /// The statements that set the isolation of transactions that are not open yet: one statement
    /// sees the commits before it, serializable, and without writes.
    pub isolation: [&'static str; 3],
    /// Sets a savepoint, releases one, and returns to one. An empty statement is not needed.
    pub savepoints: [&'static str; 3],
    /// True if a statement on a savepoint that does not exist fails the whole transaction.
    pub guards_savepoints: bool,
    /// How changes are recorded for the change feed; `None` if they are not.
    pub feed: Option<&'static FeedRules>,
}

/// The types of columns, in the form in which the catalog reports them.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are those of the kinds")]
pub struct ColumnTypes {
    pub boolean: &'static str,
    pub small: &'static str,
    pub int: &'static str,
    pub big: &'static str,
    pub float: &'static str,
    pub currency: &'static str,
    /// A text with at most this number of characters; `{}` is the number.
    pub varchar: &'static str,
    /// The most characters of such texts.
    pub varchar_max: u32,
    pub text: &'static str,
    pub blob: &'static str,
    pub date: &'static str,
    pub time: &'static str,
    pub timestamp: &'static str,
    pub uuid: &'static str,
    /// The most characters of a text that is a key or refers to one; `None` if it is not limited.
    pub key_chars: Option<u32>,
    /// The names of integer types, and the bytes of their values.
    pub integers: &'static [(&'static str, u8)],
    /// The names of types with texts, and the most characters of their values.
    pub texts: &'static [(&'static str, u32)],
    /// Other types whose values are read and written as those of the first one.
    pub alike: &'static [(&'static str, &'static str)],
}

/// How texts are compared.
#[derive(Clone, Debug)]
pub struct TextRules {
    /// A text with A to Z in lower case.
    pub folded: &'static str,
    /// The definition of a column next to it with such a text, after its name, if the database has no
    /// indexes of expressions: `{type}` is its type, `{}` the expression.
    pub fold_column: Option<&'static str>,
    /// True if such a text is bytes.
    pub folded_is_binary: bool,
    /// A condition that a folded text `{}` contains `?`, and that it begins with it.
    pub places: [&'static str; 2],
    /// What follows the type of a column with texts, so that they compare byte by byte.
    pub collation: &'static str,
    /// The names of the collations that compare byte by byte.
    pub collations: &'static [&'static str],
}

/// The values in statements.
#[derive(Clone, Debug)]
pub struct ValueRules {
    /// The placeholders of values whose type the server would not infer.
    pub placeholders: &'static [(ValueForm, &'static str)],
    /// True if they are needed for the values of inserts and updates, too.
    pub written: bool,
    /// True if a UUID is a text.
    pub uuid_is_text: bool,
    /// False and true as literals.
    pub booleans: [&'static str; 2],
    /// The begin and end of bytes as a literal.
    pub bytes: [&'static str; 2],
}

/// How an insert returns its automatic key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnedKey {
    /// `SELECT last_insert_id()` returns the number.
    LastInsertId {
        /// True if the driver returns it with the answer to an insert.
        by_driver: bool,
    },
    /// The statement returns columns: `RETURNING "id"` at its end.
    Returning,
    /// The statement returns columns: `OUTPUT INSERTED."id"` before its values.
    Output,
    /// A statement selects the number that a sequence has returned last.
    Sequence(&'static str),
}

/// How statements that write differ.
#[derive(Clone, Debug)]
pub struct WriteRules {
    /// How an insert returns its automatic key.
    pub key: ReturnedKey,
    /// The statement after an insert with an integer key that was given, so that automatic keys are
    /// higher: `{table}` and `{key}` are names, `{table_text}` and `{key_text}` texts.
    pub after_given_key: Option<&'static str>,
    /// An insert without columns, after the name of the table.
    pub without_columns: &'static str,
    /// True if a statement may insert several rows.
    pub many_rows: bool,
    /// True if a statement may update several rows, with the values of each in a `CASE`.
    pub updates_by_case: bool,
}

/// Statements that define tables.
#[derive(Clone, Debug)]
pub struct DefinitionRules {
    /// What follows the columns of a table.
    pub table_end: &'static str,
    /// What follows the type of an automatic key; `{sequence}` is its sequence.
    pub automatic_key: &'static str,
    /// Creates the sequence of an automatic key.
    pub sequence: Option<&'static str>,
    /// True if `DEFAULT` comes before `NOT NULL`.
    pub default_first: bool,
    /// Adds a column, before its definition.
    pub add_column: &'static str,
    /// What follows the type of a generated column, where `{}` is its expression; `None` for a database
    /// without generated columns.
    /// Such a column is not declared NOT NULL.
    pub generated: Option<&'static str>,
    /// How a column gets another type, or accepts NULL.
    pub modify: ColumnChange,
    /// Drops a reference, in `ALTER TABLE`.
    pub drop_reference: &'static str,
    /// True if an index is dropped by `ALTER TABLE`.
    pub table_drops_index: bool,
    /// True if names of columns are compared without regard to case.
    pub folds_names: bool,
    /// True if NULLs are equal in a unique index, so that it has to leave them out.
    pub nulls_are_equal: bool,
    /// The most bytes of an index; a longer one has the begin of its texts.
    pub index_bytes_max: Option<usize>,
    /// Acquires and releases the lock of migrations.
    pub lock: Option<[&'static str; 2]>,
}

/// How a column is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnChange {
    /// By its whole definition, after these words.
    Whole(&'static str),
    /// By a part: `ALTER COLUMN {} TYPE`, and `ALTER COLUMN {} SET NOT NULL`.
    Parts,
}

/// The structure of the database, as statements. `{}` is the table's name as a text literal.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// The names of all tables.
    pub tables: &'static str,
    /// 1 if the name is that of a table, 0 if it is that of another object.
    pub is_table: &'static str,
    /// Name, declared type, 1 if NOT NULL, 1 if an insert must set it, 1 if it is the key, the
    /// collation, 1 if the server computes it.
    pub columns: &'static str,
    /// Name, column, referenced table, action when that row is deleted.
    pub references: &'static str,
    /// Name, 1 if unique, column or expression; in the order of name and place. Not the key's.
    pub indexes: &'static str,
}

/// Limits of statements.
#[derive(Clone, Copy, Debug)]
pub struct StatementLimits {
    /// The most parameters.
    pub parameters: usize,
    /// The most bytes of an insert of several rows.
    pub bytes: usize,
}

impl Dialect {
    /// Returns the placeholder of a value of this form that is compared.
    #[must_use]
    pub fn placeholder(&self, form: ValueForm) -> &'static str {
        let cast = self.values.placeholders.iter().find(|(of, _)| *of == form);
        cast.map_or("?", |(_, placeholder)| placeholder)
    }

    /// Returns the placeholder of a value of this form that is written.
    #[must_use]
    pub fn written_placeholder(&self, form: ValueForm) -> &'static str {
        if self.values.written { self.placeholder(form) } else { "?" }
    }
}
