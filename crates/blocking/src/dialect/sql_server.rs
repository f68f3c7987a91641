//! Microsoft SQL Server, from version 2017. Not run against a server.

use marmota_model::ValueForm;

use super::rules::{
    Catalog, ColumnChange, ColumnTypes, DefinitionRules, Dialect, ReturnedKey, StatementLimits,
    TextRules, ValueRules, WriteRules,
};

/// Microsoft SQL Server, from version 2017.
pub const SQL_SERVER: Dialect = Dialect {
    name: "SQL Server",
    is_tested: false,
    types: ColumnTypes {
        boolean: "bit",
        small: "smallint",
        int: "int",
        big: "bigint",
        float: "float",
        currency: "decimal(19,4)",
        varchar: "nvarchar({})",
        varchar_max: 250,
        text: "nvarchar(max)",
        blob: "varbinary(max)",
        date: "date",
        time: "time(6)",
        timestamp: "datetime2(6)",
        // A `uniqueidentifier` sorts by its last bytes first.
        uuid: "binary(16)",
        // An index has at most 1,700 bytes, the key 900.
        key_chars: Some(400),
        integers: &[("smallint", 2), ("int", 4), ("bigint", 8)],
        texts: &[("nvarchar(max)", u32::MAX)],
        alike: &[("float", "real")],
    },
    texts: TextRules {
        // Its `lower` would change other letters, too.
        folded: "translate({},'ABCDEFGHIJKLMNOPQRSTUVWXYZ','abcdefghijklmnopqrstuvwxyz')",
        fold_column: Some("AS ({}) PERSISTED"),
        folded_is_binary: false,
        places: ["charindex(?,{})>0", "charindex(?,{})=1"],
        collation: " COLLATE Latin1_General_100_BIN2",
        collations: &["Latin1_General_100_BIN2"],
    },
    values: ValueRules {
        placeholders: &[
            (ValueForm::Currency, "CAST(? AS decimal(19,4))"),
            (ValueForm::Date, "CAST(? AS date)"),
            (ValueForm::Time, "CAST(? AS time(6))"),
            (ValueForm::Timestamp, "CAST(? AS datetime2(6))"),
        ],
        written: true,
        uuid_is_text: false,
        booleans: ["0", "1"],
        bytes: ["0x", ""],
    },
    writes: WriteRules {
        key: ReturnedKey::Output,
        after_given_key: None,
        without_columns: " DEFAULT VALUES",
        many_rows: true,
        updates_by_case: false,
    },
    definitions: DefinitionRules {
        table_end: "",
        // An identity column would refuse keys that are given.
        automatic_key: " DEFAULT (NEXT VALUE FOR {sequence})",
        sequence: Some("CREATE SEQUENCE {sequence} AS bigint START WITH 1 INCREMENT BY 1"),
        default_first: false,
        add_column: "ADD ",
        generated: None,
        modify: ColumnChange::Whole("ALTER COLUMN "),
        drop_reference: "DROP CONSTRAINT {}",
        table_drops_index: false,
        folds_names: false,
        nulls_are_equal: true,
        index_bytes_max: None,
        lock: None,
    },
    catalog: Catalog {
        tables: "SELECT name FROM sys.tables WHERE schema_id=schema_id() ORDER BY name",
        is_table: "SELECT CASE type WHEN 'U' THEN 1 ELSE 0 END FROM sys.objects \
                   WHERE name={} AND schema_id=schema_id()",
        columns: "SELECT c.name,CASE WHEN t.name IN ('nvarchar','varbinary','binary') \
                  THEN t.name+'('+CASE c.max_length WHEN -1 THEN 'max' ELSE \
                  CAST(c.max_length/CASE t.name WHEN 'nvarchar' THEN 2 ELSE 1 END AS varchar)END+')' \
                  WHEN t.name='decimal' THEN concat('decimal(',c.precision,',',c.scale,')') \
                  WHEN t.name IN ('time','datetime2') THEN concat(t.name,'(',c.scale,')') \
                  ELSE t.name END,1-CAST(c.is_nullable AS int),\
                  CASE WHEN c.is_nullable=0 AND c.default_object_id=0 AND c.is_identity=0 THEN 1 \
                  ELSE 0 END,coalesce((SELECT max(1) FROM sys.index_columns k JOIN sys.indexes i \
                  ON i.object_id=k.object_id AND i.index_id=k.index_id AND i.is_primary_key=1 \
                  WHERE k.object_id=c.object_id AND k.column_id=c.column_id),0),\
                  coalesce(c.collation_name,''),CAST(c.is_computed AS int) FROM sys.columns c \
                  JOIN sys.types t ON t.user_type_id=c.user_type_id \
                  WHERE c.object_id=object_id({}) ORDER BY c.column_id",
        references: "SELECT f.name,c.name,object_name(f.referenced_object_id),\
                     replace(f.delete_referential_action_desc,'_',' ') FROM sys.foreign_keys f \
                     JOIN sys.foreign_key_columns k ON k.constraint_object_id=f.object_id \
                     JOIN sys.columns c ON c.object_id=f.parent_object_id \
                     AND c.column_id=k.parent_column_id WHERE f.parent_object_id=object_id({})",
        indexes: "SELECT i.name,CAST(i.is_unique AS int),c.name FROM sys.indexes i \
                  JOIN sys.index_columns k ON k.object_id=i.object_id AND k.index_id=i.index_id \
                  JOIN sys.columns c ON c.object_id=i.object_id AND c.column_id=k.column_id \
                  WHERE i.object_id=object_id({}) AND i.is_primary_key=0 \
                  ORDER BY i.name,k.key_ordinal",
    },
    limits: StatementLimits { parameters: 2_000, bytes: 1 << 20 },
    settings: &["SET QUOTED_IDENTIFIER ON", "SET XACT_ABORT OFF"],
    lock_timeout: Some(("SET LOCK_TIMEOUT {}", 1)),
    ping: "SELECT 1",
    kill: None,
    connection_id: None,
    paging: " OFFSET 0 ROWS FETCH NEXT ? ROWS ONLY",
    nulls: ["", " DESC"],
    isolation: [
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
    ],
    savepoints: ["SAVE TRANSACTION {}", "", "ROLLBACK TRANSACTION {}"],
    guards_savepoints: false,
    feed: None,
};
