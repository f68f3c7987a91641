//! Oracle Database, from version 23ai: it has booleans, and inserts of several rows. Not run against a server.

use marmota_model::ValueForm;

use super::rules::{
    Catalog, ColumnChange, ColumnTypes, DefinitionRules, Dialect, ReturnedKey, StatementLimits,
    TextRules, ValueRules, WriteRules,
};

/// Oracle Database, from version 23ai: it has booleans, and inserts of several rows.
pub const ORACLE: Dialect = Dialect {
    name: "Oracle",
    is_tested: false,
    types: ColumnTypes {
        boolean: "BOOLEAN",
        small: "NUMBER(5,0)",
        int: "NUMBER(10,0)",
        big: "NUMBER(19,0)",
        float: "BINARY_DOUBLE",
        currency: "NUMBER(19,4)",
        varchar: "VARCHAR2({} CHAR)",
        varchar_max: 250,
        text: "CLOB",
        blob: "BLOB",
        date: "TIMESTAMP(0)",
        time: "VARCHAR2(15)",
        timestamp: "TIMESTAMP(6)",
        uuid: "RAW(16)",
        key_chars: Some(700),
        integers: &[("NUMBER(5,0)", 2), ("NUMBER(10,0)", 4), ("NUMBER(19,0)", 8)],
        texts: &[("CLOB", u32::MAX)],
        alike: &[],
    },
    texts: TextRules {
        folded: "translate({},'ABCDEFGHIJKLMNOPQRSTUVWXYZ','abcdefghijklmnopqrstuvwxyz')",
        fold_column: None,
        folded_is_binary: false,
        places: ["instr({},?)>0", "instr({},?)=1"],
        collation: "",
        collations: &["USING_NLS_COMP", "BINARY", ""],
    },
    values: ValueRules {
        placeholders: &[
            (ValueForm::Bool, "CAST(? AS BOOLEAN)"),
            (ValueForm::Currency, "CAST(? AS NUMBER(19,4))"),
            (ValueForm::Date, "to_timestamp(?,'YYYY-MM-DD')"),
            (ValueForm::Timestamp, "to_timestamp(?,'YYYY-MM-DD HH24:MI:SS.FF6')"),
        ],
        written: true,
        uuid_is_text: false,
        booleans: ["FALSE", "TRUE"],
        bytes: ["hextoraw('", "')"],
    },
    writes: WriteRules {
        key: ReturnedKey::Sequence("SELECT {}.CURRVAL FROM dual"),
        after_given_key: None,
        without_columns: " VALUES (DEFAULT)",
        many_rows: true,
        updates_by_case: false,
    },
    definitions: DefinitionRules {
        table_end: "",
        automatic_key: " DEFAULT {sequence}.NEXTVAL",
        sequence: Some("CREATE SEQUENCE {sequence} START WITH 1"),
        default_first: true,
        add_column: "ADD ",
        generated: None,
        modify: ColumnChange::Whole("MODIFY "),
        drop_reference: "DROP CONSTRAINT {}",
        table_drops_index: false,
        folds_names: false,
        nulls_are_equal: false,
        index_bytes_max: None,
        lock: None,
    },
    catalog: Catalog {
        tables: "SELECT table_name FROM user_tables ORDER BY table_name",
        is_table: "SELECT CASE object_type WHEN 'TABLE' THEN 1 ELSE 0 END FROM user_objects \
                   WHERE object_name={} AND object_type IN ('TABLE','VIEW')",
        columns: "SELECT column_name,CASE data_type WHEN 'NUMBER' THEN \
                  'NUMBER('||data_precision||','||data_scale||')' WHEN 'VARCHAR2' THEN \
                  'VARCHAR2('||char_length||' CHAR)' WHEN 'RAW' THEN 'RAW('||data_length||')' \
                  ELSE data_type END,CASE nullable WHEN 'N' THEN 1 ELSE 0 END,\
                  CASE WHEN nullable='N' AND default_length IS NULL THEN 1 ELSE 0 END,\
                  (SELECT count(*) FROM user_constraints k JOIN user_cons_columns c \
                  ON c.constraint_name=k.constraint_name WHERE k.constraint_type='P' \
                  AND c.table_name=t.table_name AND c.column_name=t.column_name),\
                  coalesce(collation,''),CASE virtual_column WHEN 'YES' THEN 1 ELSE 0 END \
                  FROM user_tab_cols t WHERE table_name={} AND hidden_column='NO' \
                  ORDER BY column_id",
        references: "SELECT k.constraint_name,c.column_name,r.table_name,k.delete_rule \
                     FROM user_constraints k JOIN user_cons_columns c \
                     ON c.constraint_name=k.constraint_name JOIN user_constraints r \
                     ON r.constraint_name=k.r_constraint_name \
                     WHERE k.constraint_type='R' AND k.table_name={}",
        indexes: "SELECT i.index_name,CASE i.uniqueness WHEN 'UNIQUE' THEN 1 ELSE 0 END,c.column_name \
                  FROM user_indexes i JOIN user_ind_columns c ON c.index_name=i.index_name \
                  WHERE i.table_name={} AND i.constraint_index='NO' \
                  ORDER BY i.index_name,c.column_position",
    },
    limits: StatementLimits { parameters: 32_767, bytes: 1 << 20 },
    settings: &["ALTER SESSION SET NLS_COMP=BINARY NLS_SORT=BINARY TIME_ZONE='UTC'"],
    lock_timeout: None,
    ping: "SELECT 1 FROM dual",
    kill: None,
    connection_id: None,
    paging: " FETCH FIRST ? ROWS ONLY",
    nulls: [" NULLS FIRST", " DESC NULLS LAST"],
    isolation: [
        "ALTER SESSION SET ISOLATION_LEVEL=READ COMMITTED",
        "ALTER SESSION SET ISOLATION_LEVEL=SERIALIZABLE",
        "ALTER SESSION SET ISOLATION_LEVEL=READ COMMITTED",
    ],
    savepoints: ["SAVEPOINT {}", "", "ROLLBACK TO SAVEPOINT {}"],
    guards_savepoints: false,
    feed: None,
};
