//! SQLite. Dates, times and UUIDs are texts, which sort as they should.

use super::rules::{
    Catalog, ColumnChange, ColumnTypes, DefinitionRules, Dialect, ReturnedKey, StatementLimits,
    TextRules, ValueRules, WriteRules,
};

/// SQLite.
pub const SQLITE: Dialect = Dialect {
    name: "SQLite",
    types: ColumnTypes {
        boolean: "boolean",
        small: "integer",
        int: "integer",
        big: "integer",
        float: "double",
        currency: "decimal(19,4)",
        varchar: "varchar({})",
        varchar_max: 0,
        text: "text",
        blob: "blob",
        date: "char(10)",
        time: "char(15)",
        timestamp: "char(26)",
        uuid: "char(36)",
        key_chars: None,
        integers: &[("integer", 8), ("INTEGER", 8), ("bigint", 8), ("int", 8)],
        texts: &[("text", u32::MAX), ("TEXT", u32::MAX)],
        alike: &[("blob", "BLOB"), ("double", "real"), ("double", "REAL")],
    },
    texts: TextRules {
        folded: "lower({})",
        fold_column: false,
        folded_is_binary: false,
        places: ["instr({},?)>0", "instr({},?)=1"],
        collation: "",
        collations: &["BINARY"],
    },
    values: ValueRules {
        placeholders: &[],
        written: false,
        uuid_is_text: true,
        booleans: ["0", "1"],
        bytes: ["x'", "'"],
    },
    writes: WriteRules {
        key: ReturnedKey::Sequence("SELECT last_insert_rowid()"),
        after_given_key: None,
        without_columns: " DEFAULT VALUES",
        many_rows: true,
        array_binding: false,
    },
    definitions: DefinitionRules {
        table_end: "",
        // An integer key is the number of the row.
        automatic_key: "",
        sequence: None,
        default_first: false,
        add_column: "ADD COLUMN ",
        modify: ColumnChange::Never,
        drop_reference: "",
        table_drops_index: false,
        index_bytes_max: None,
        inline_references: true,
        lock: None,
    },
    catalog: Catalog {
        tables: "SELECT name FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite_%' \
                 ORDER BY name",
        is_table: "SELECT CASE type WHEN 'table' THEN 1 ELSE 0 END FROM sqlite_master WHERE name={}",
        columns: "SELECT name,type,\"notnull\",\"notnull\"=1 AND dflt_value IS NULL AND pk=0,pk>0,\
                  'BINARY',hidden>1 FROM pragma_table_xinfo({})",
        references: "SELECT '',\"from\",\"table\",on_delete FROM pragma_foreign_key_list({})",
        indexes: "SELECT i.name,i.\"unique\",coalesce(c.name,'expression') \
                  FROM pragma_index_list({}) i,pragma_index_xinfo(i.name) c \
                  WHERE i.origin='c' AND c.key=1 ORDER BY i.name,c.seqno",
    },
    limits: StatementLimits { parameters: 32_766, bytes: 1 << 20 },
    settings: &["PRAGMA foreign_keys=1", "PRAGMA busy_timeout=10000"],
    lock_timeout: None,
    ping: "SELECT 1",
    kill: None,
    connection_id: None,
    paging: " LIMIT ?",
    nulls: ["", " DESC"],
    isolation: ["PRAGMA query_only=0", "PRAGMA query_only=0", "PRAGMA query_only=1"],
    savepoints: ["SAVEPOINT {}", "RELEASE {}", "ROLLBACK TO {}"],
};
