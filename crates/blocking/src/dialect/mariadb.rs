//! MariaDB and MySQL. A connection has set `ANSI_QUOTES`.
//!
//! | kind | column |
//! |---|---|
//! | boolean, integers | TINYINT(1), SMALLINT, INT, BIGINT by range |
//! | currency | DECIMAL(19,4) |
//! | text | VARCHAR up to 250 characters, so that 64 columns fit a row, and for keys; LONGTEXT otherwise |
//! | JSON, file | LONGTEXT: JSON's check would refuse documents that are nested deeply |
//! | blob, vector | LONGBLOB |
//! | date, time, timestamp | DATE, TIME(6), DATETIME(6) in UTC |
//! | UUID | BINARY(16), in the order of its bytes |
//!
//! A text that compares without regard to the case of A to Z has another column next to it, which
//! the server generates. Its expression uses the character set tis620, which has one byte for each
//! character, and other letters than A to Z have no case in it: so the bytes of other characters
//! are unchanged.

use marmota_model::ValueForm;

use super::feed::MARIADB_FEED;
use super::rules::{
    Catalog, ColumnChange, ColumnTypes, DefinitionRules, Dialect, ReturnedKey, StatementLimits,
    TextRules, ValueRules, WriteRules,
};

/// MariaDB.
pub const MARIADB: Dialect = Dialect {
    name: "MariaDB",
    is_tested: true,
    types: ColumnTypes {
        boolean: "tinyint(1)",
        small: "smallint(6)",
        int: "int(11)",
        big: "bigint(20)",
        float: "double",
        currency: "decimal(19,4)",
        varchar: "varchar({})",
        varchar_max: 250,
        text: "longtext",
        blob: "longblob",
        date: "date",
        time: "time(6)",
        timestamp: "datetime(6)",
        uuid: "binary(16)",
        // An index has at most 3,072 bytes.
        key_chars: Some(700),
        integers: &[("tinyint", 1), ("smallint", 2), ("mediumint", 3), ("int", 4), ("bigint", 8)],
        texts: &[
            ("longtext", u32::MAX),
            ("mediumtext", (1 << 24) / 4),
            ("text", (1 << 16) / 4),
            ("tinytext", 63),
        ],
        alike: &[
            ("longblob", "mediumblob"),
            ("longblob", "blob"),
            ("longblob", "tinyblob"),
            ("double", "float"),
        ],
    },
    texts: TextRules {
        folded: "cast(lower(convert(cast({} as binary) using tis620)) as binary)",
        fold_column: Some("{type} GENERATED ALWAYS AS ({}) STORED INVISIBLE"),
        folded_is_binary: true,
        places: ["locate(cast(? as binary),{})>0", "1=locate(cast(? as binary),{})"],
        collation: " CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin",
        collations: &["utf8mb4_nopad_bin", "utf8mb4_0900_bin"],
    },
    values: ValueRules {
        // A decimal would be compared with a text as a float.
        placeholders: &[(ValueForm::Currency, "CAST(? AS DECIMAL(19,4))")],
        written: false,
        uuid_is_text: false,
        booleans: ["0", "1"],
        bytes: ["x'", "'"],
    },
    writes: WriteRules {
        key: ReturnedKey::LastInsertId { by_driver: false },
        after_given_key: None,
        without_columns: " () VALUES ()",
        many_rows: true,
        updates_by_case: true,
    },
    definitions: DefinitionRules {
        table_end: " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin",
        automatic_key: " AUTO_INCREMENT",
        sequence: None,
        default_first: false,
        add_column: "ADD COLUMN ",
        generated: Some(" GENERATED ALWAYS AS ({}) STORED"),
        modify: ColumnChange::Whole("MODIFY COLUMN "),
        drop_reference: "DROP FOREIGN KEY {}",
        table_drops_index: true,
        folds_names: true,
        nulls_are_equal: false,
        index_bytes_max: Some(3_072),
        // The lock is of the server, the name of one of its databases.
        lock: Some([
            "SELECT get_lock(concat('marmota_migration:',left(database(),40)),120)",
            "DO release_lock(concat('marmota_migration:',left(database(),40)))",
        ]),
    },
    catalog: Catalog {
        tables: "SELECT table_name FROM information_schema.tables WHERE table_schema=database() \
                 AND table_type='BASE TABLE' ORDER BY table_name",
        is_table: "SELECT table_type='BASE TABLE' FROM information_schema.tables \
                   WHERE table_schema=database() AND table_name={}",
        columns: "SELECT column_name,column_type,is_nullable='NO',\
                  is_nullable='NO' AND column_default IS NULL AND extra='',column_key='PRI',\
                  coalesce(collation_name,''),coalesce(generation_expression,'')<>'' \
                  FROM information_schema.columns \
                  WHERE table_schema=database() AND table_name={} ORDER BY ordinal_position",
        // Without constants for both, the server opens the tables of all databases.
        references: "SELECT k.constraint_name,k.column_name,k.referenced_table_name,r.delete_rule \
                     FROM information_schema.key_column_usage k \
                     JOIN information_schema.referential_constraints r \
                     ON r.constraint_name=k.constraint_name \
                     WHERE k.table_schema=database() AND k.table_name={} \
                     AND r.constraint_schema=database() AND r.table_name={} \
                     AND k.referenced_table_name IS NOT NULL",
        indexes: "SELECT index_name,non_unique=0,coalesce(column_name,'') \
                  FROM information_schema.statistics \
                  WHERE table_schema=database() AND table_name={} AND index_name<>'PRIMARY' \
                  ORDER BY index_name,seq_in_index",
    },
    // Bytes: well below the server's default `max_allowed_packet`.
    limits: StatementLimits { parameters: 65_535, bytes: 4 << 20 },
    // Names in double quotes, errors instead of converted values, and times in UTC.
    settings: &["SET SESSION sql_mode='ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,\
                 NO_AUTO_VALUE_ON_ZERO,STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,\
                 NO_ENGINE_SUBSTITUTION',time_zone='+00:00',autocommit=1"],
    lock_timeout: Some(("SET SESSION innodb_lock_wait_timeout={}", 1_000)),
    ping: "DO 1",
    kill: Some("KILL QUERY {}"),
    connection_id: Some("SELECT connection_id()"),
    paging: " LIMIT ?",
    nulls: ["", " DESC"],
    isolation: [
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ WRITE",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY",
    ],
    savepoints: ["SAVEPOINT {}", "RELEASE SAVEPOINT {}", "ROLLBACK TO SAVEPOINT {}"],
    guards_savepoints: false,
    feed: Some(&MARIADB_FEED),
};

/// MySQL.
pub const MYSQL: Dialect = Dialect {
    name: "MySQL",
    is_tested: false,
    texts: TextRules {
        collation: " CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin",
        ..MARIADB.texts
    },
    definitions: DefinitionRules {
        table_end: " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_bin",
        ..MARIADB.definitions
    },
    feed: None,
    ..MARIADB
};
