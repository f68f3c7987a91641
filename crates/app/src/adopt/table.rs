//! From an existing table to a schema.

use std::borrow::Cow;
use std::collections::HashMap;

use marmota_model::{Field, Index, KeyKind, Kind, OnDelete, Role, Rule, Schema, Table};
use marmota_store::existing::{ExistingColumn, ExistingReference, ExistingTable};

use super::{AdoptRemark, check_rule, constant};

/// The tables that are being adopted.
pub(super) struct Adopting {
    /// The keys of the tables that a reference can refer to, by name.
    keys: HashMap<String, (String, KeyKind)>,
    /// The columns of the composite keys that a reference can refer to, by the name of the table.
    composite_keys: HashMap<String, Vec<String>>,
    pub(super) remarks: Vec<AdoptRemark>,
}

impl Adopting {
    /// Finds the tables that a file can have.
    pub(super) fn new(tables: &[ExistingTable]) -> Self {
        let (mut keys, mut composite_keys) = (HashMap::new(), HashMap::new());
        for table in tables.iter().filter(|table| reason_against(table).is_none()) {
            if is_composite(table) {
                composite_keys.insert(table.name.clone(), table.key.clone());
            }
            let mut of_key = table.columns.iter().filter(|column| column.is_key);
            if let (Some(key), None) = (of_key.next(), of_key.next()) {
                let kind = match key.kind {
                    Ok(Kind::Int { .. }) => KeyKind::Auto,
                    Ok(Kind::Uuid) => KeyKind::Uuid,
                    _ => KeyKind::Text,
                };
                keys.insert(table.name.clone(), (key.name.clone(), kind));
            }
        }
        Self { keys, composite_keys, remarks: Vec::new() }
    }

    /// Returns the schema of a table; `None`, with a remark, if a file cannot have the table.
    pub(super) fn schema(&mut self, table: &ExistingTable) -> Option<Schema> {
        if let Some(what) = reason_against(table) {
            self.remark(table, None, true, what);
            return None;
        }
        let mut fields = Vec::with_capacity(table.columns.len());
        for column in &table.columns {
            match reason_against_column(column) {
                Some(what) => self.remark(table, Some(&column.name), true, what),
                None => fields.push(self.field(table, column, &fields)),
            }
        }
        self.add_checks(table, &mut fields);
        let indexes = self.indexes(table, &mut fields);
        let schema = match is_composite(table) {
            true => with_composite_key(table, fields),
            false => Schema::new(table.name.clone(), fields),
        };
        let schema = schema.indexes(indexes);
        match Table::new(schema.clone()) {
            Ok(_) => Some(self.with_composite_references(table, schema)),
            Err(error) => {
                // Tables that refer to this one would fail with it.
                self.keys.remove(&table.name);
                self.composite_keys.remove(&table.name);
                let message = error.message();
                let of_model = format!("model `{}`: ", table.name);
                let what = match message.strip_prefix(&*of_model) {
                    Some(what) if what.starts_with("a name") => format!("{what}: RENAME TO"),
                    Some(what) => what.to_owned(),
                    None => message.to_owned(),
                };
                self.remark(table, None, true, what);
                None
            }
        }
    }

    fn remark(
        &mut self,
        table: &ExistingTable,
        part: Option<&str>,
        is_left_out: bool,
        what: String,
    ) {
        self.remarks.push(AdoptRemark {
            table: table.name.clone(),
            part: part.map(str::to_owned),
            is_left_out,
            what,
        });
    }

    fn field(&mut self, table: &ExistingTable, column: &ExistingColumn, before: &[Field]) -> Field {
        let kind = column.kind.clone().unwrap_or(Kind::TEXT);
        let mut field = Field::named(column.name.clone().into(), kind).nullable(column.nullable);
        if column.is_key && !is_composite(table) {
            return field.nullable(false).role(Role::Key);
        }
        if let Some(pattern) = column.pattern {
            field.rules = vec![Rule::Pattern(pattern.into())].into();
        }
        if let Some(remark) = &column.remark {
            self.remark(table, Some(&column.name), false, remark.clone());
        }
        let refers = |one: &&ExistingReference| *one.columns == [&*column.name];
        if let Some(reference) = table.references.iter().find(refers) {
            match self.reference_kind(reference, column) {
                Ok(kind) => {
                    field.kind = kind;
                    field.on_delete = match reference.on_delete {
                        OnDelete::SetNull if !column.nullable => OnDelete::Restrict,
                        action => action,
                    };
                }
                Err(what) => self.remark(table, Some(&column.name), false, what),
            }
        }
        self.add_default(table, column, &mut field, before);
        field
    }

    /// Returns the kind of a reference, or the reason why the field only has the value of the key.
    fn reference_kind(
        &self,
        reference: &ExistingReference,
        column: &ExistingColumn,
    ) -> Result<Kind, String> {
        let to = &reference.table;
        let known = self.keys.iter().find(|(name, _)| name.eq_ignore_ascii_case(to));
        let Some((name, (key, kind))) = known else {
            return Err(format!(
                "it refers to `{to}`, which the file does not have; the database checks it"
            ));
        };
        let is_to_key = match &*reference.to {
            [] => true,
            [column] => column.eq_ignore_ascii_case(key),
            _ => false,
        };
        let fits = matches!(
            (&column.kind, kind),
            (Ok(Kind::Int { .. }), KeyKind::Auto)
                | (Ok(Kind::Uuid), KeyKind::Uuid)
                | (Ok(Kind::Text { .. }), KeyKind::Text)
        );
        match is_to_key && fits {
            true => Ok(Kind::Reference { table: name.clone().into(), key: *kind }),
            false => Err(format!(
                "its foreign key does not refer to the key of `{name}`, which a reference does; the \
                 database checks it"
            )),
        }
    }

    /// Adds the references to composite keys to a schema.
    fn with_composite_references(&mut self, table: &ExistingTable, mut schema: Schema) -> Schema {
        for reference in table.references.iter().filter(|one| one.columns.len() > 1) {
            let added = self.composite_reference(reference, &schema).and_then(|field| {
                let mut with = schema.clone();
                with.fields.to_mut().push(field);
                match Table::new(with.clone()) {
                    Ok(_) => Ok(with),
                    Err(error) => Err(error.message().to_owned()),
                }
            });
            match added {
                Ok(with) => schema = with,
                Err(why) => {
                    let what = format!(
                        "its foreign key to `{}` is left out: {why}; the database checks it",
                        reference.table
                    );
                    self.remark(table, Some(&reference.columns.join(", ")), true, what);
                }
            }
        }
        schema
    }

    /// Returns the field of a reference to a composite key, or the reason against it. It has the
    /// name of the table that it refers to, with a number if there is such a field.
    fn composite_reference(
        &self,
        reference: &ExistingReference,
        schema: &Schema,
    ) -> Result<Field, String> {
        let is_it = |name: &&String| name.eq_ignore_ascii_case(&reference.table);
        let Some(to) = self.composite_keys.keys().find(is_it) else {
            return Err("the file does not have a table with such a key".to_owned());
        };
        let key = &self.composite_keys[to];
        let target = if reference.to.is_empty() { key } else { &reference.to };
        // The foreign key may name the columns in another order than the key.
        let place = |column: &String| target.iter().position(|to| to.eq_ignore_ascii_case(column));
        let places: Option<Vec<usize>> = key.iter().map(place).collect();
        let columns = places.filter(|places| places.len() == reference.columns.len());
        let Some(columns) = columns else {
            return Err("it does not refer to the key of the table".to_owned());
        };
        let mut parts = Vec::with_capacity(columns.len());
        for column in columns.into_iter().map(|place| &reference.columns[place]) {
            let is_it = |field: &&Field| field.name.eq_ignore_ascii_case(column);
            let Some(field) = schema.fields.iter().find(is_it) else {
                return Err(format!("`{column}` is not a field"));
            };
            parts.push(field);
        }
        let names: Vec<&str> = parts.iter().map(|field| &*field.name).collect();
        let nullable = parts.iter().any(|field| field.nullable);
        let on_delete = match reference.on_delete {
            OnDelete::SetNull if !parts.iter().all(|field| field.nullable) => OnDelete::Restrict,
            action => action,
        };
        let kind = Kind::Reference { table: to.clone().into(), key: KeyKind::Text };
        let name = free_name(to, |name| {
            schema.fields.iter().all(|field| !field.name.eq_ignore_ascii_case(name))
        });
        Ok(Field::named(name.into(), kind)
            .nullable(nullable)
            .computed(format!("key({})", names.join(", ")))
            .on_delete(on_delete))
    }

    fn add_default(
        &mut self,
        table: &ExistingTable,
        column: &ExistingColumn,
        field: &mut Field,
        before: &[Field],
    ) {
        let Some(default) = &column.default else { return };
        let parsed = constant::expression(check_rule::dialect(table), default);
        if parsed.as_ref().is_some_and(constant::is_null) {
            return;
        }
        if parsed.as_ref().is_some_and(constant::is_now)
            && matches!(field.kind, Kind::Timestamp)
            && !field.nullable
            && before.iter().all(|field| field.role != Role::CreatedAt)
        {
            field.role = Role::CreatedAt;
            return;
        }
        field.default = parsed.as_ref().and_then(|sql| constant::literal(sql, &field.kind));
        if field.default.is_none() || !check_rule::is_valid(field) {
            field.default = None;
            let what = match field.nullable {
                true => "a row without it gets NULL from Marmota",
                false => "each new row must have a value",
            };
            let what = format!("its default {default} is not a constant; {what}");
            self.remark(table, Some(&column.name), false, what);
        }
    }

    fn add_checks(&mut self, table: &ExistingTable, fields: &mut [Field]) {
        let (conditions, mut others) = check_rule::conditions(table);
        for condition in conditions {
            if !check_rule::apply(&condition, fields) {
                others.push(condition.to_string());
            }
        }
        for other in others {
            let what = format!(
                "CHECK ({other}) has no rule; the database checks it, and its error does not name \
                 the field"
            );
            self.remark(table, None, false, what);
        }
        for field in fields {
            // A list of texts may have got a default before.
            if field.default.is_some() && !check_rule::is_valid(field) {
                field.default = None;
            }
        }
    }

    fn indexes(&mut self, table: &ExistingTable, fields: &mut [Field]) -> Vec<Index> {
        let mut indexes: Vec<Index> = Vec::new();
        for index in &table.indexes {
            let Some(columns) = &index.columns else {
                let what = "the index has an expression or a condition; the database keeps it and \
                            uses it";
                self.remark(table, Some(&index.name), true, what.to_owned());
                continue;
            };
            let place = |name: &String| fields.iter().position(|field| *field.name == **name);
            let places: Option<Vec<usize>> = columns.iter().map(place).collect();
            // An index over a column that is left out.
            let Some(places) = places else { continue };
            let is_repeated = indexes.iter().any(|known| {
                *known.fields == *places
                    && known.unique == index.unique
                    && known.filter.as_deref() == index.filter.as_deref()
            });
            match *places {
                _ if is_repeated => {}
                [at] if index.unique && index.filter.is_none() && fields[at].role != Role::Key => {
                    fields[at].unique = true;
                }
                _ => {
                    let filter = index.filter.clone().map(Cow::Owned);
                    let new = Index { fields: places.into(), unique: index.unique, filter };
                    if new.filter.is_none() || is_valid(&table.name, fields, &new) {
                        indexes.push(new);
                    } else {
                        let what = "no filter states the condition of the index; the database \
                                    keeps it and uses it";
                        self.remark(table, Some(&index.name), true, what.to_owned());
                    }
                }
            }
        }
        indexes
    }
}

/// Returns true if the primary key of a table has several columns.
fn is_composite(table: &ExistingTable) -> bool {
    table.columns.iter().filter(|column| column.is_key).count() > 1
}

/// Returns the schema of a table whose primary key has several columns. The text of the key is called
/// `key`, or `key_2` and so on if there is such a column.
fn with_composite_key(table: &ExistingTable, fields: Vec<Field>) -> Schema {
    let name = free_name("key", |name| {
        table.columns.iter().all(|column| !column.name.eq_ignore_ascii_case(name))
    });
    let place = |column: &String| fields.iter().position(|field| *field.name == **column);
    let key: Vec<usize> = table.key.iter().filter_map(place).collect();
    Schema::new(table.name.clone(), fields).composite_key(name, key)
}

/// Returns a name, or `name_2` and so on if it is not free.
fn free_name(name: &str, is_free: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| is_free(name)).unwrap_or_default()
}

/// Returns true if a table of these fields can have the index.
fn is_valid(table: &str, fields: &[Field], index: &Index) -> bool {
    let schema = Schema::new(table.to_owned(), fields.to_vec());
    Table::new(schema.indexes(vec![index.clone()])).is_ok()
}

/// Returns the reason why a file cannot have the table, and what to do.
fn reason_against(table: &ExistingTable) -> Option<String> {
    if !table.is_table {
        let what = "it is a view or another object without a key of its own: read it with SQL, or \
                    make a table of it";
        return Some(what.to_owned());
    }
    let keys: Vec<&ExistingColumn> = table.columns.iter().filter(|column| column.is_key).collect();
    match *keys {
        [key] => match &key.kind {
            Ok(_) => {}
            Err(what) => return Some(what.clone()),
        },
        [] => {
            return Some("it has no primary key, by which Marmota finds rows: add one".to_owned());
        }
        _ => {
            if let Some((key, what)) =
                keys.iter().find_map(|key| Some((key, key.kind.as_ref().err()?)))
            {
                return Some(format!("`{}` of its primary key has no kind: {what}", key.name));
            }
            if let Some(key) = keys.iter().find(|key| key.nullable) {
                return Some(format!(
                    "`{}` of its primary key may be NULL: declare it NOT NULL",
                    key.name
                ));
            }
        }
    }
    let needed = table.columns.iter().find(|column| {
        column.is_required && !column.is_key && reason_against_column(column).is_some()
    })?;
    let what = reason_against_column(needed).unwrap_or_default();
    Some(format!(
        "a row needs a value for `{}`, which no field can have: {what}; or give the column a default",
        needed.name
    ))
}

/// Returns the reason why a file cannot have the column.
fn reason_against_column(column: &ExistingColumn) -> Option<String> {
    match &column.kind {
        Err(what) => Some(what.clone()),
        Ok(kind) => {
            let field = Field::named(column.name.clone().into(), kind.clone());
            match check_rule::is_valid(&field) {
                true => None,
                false => Some(
                    "a name must have at most 63 ASCII letters, digits or `_`: RENAME COLUMN"
                        .to_owned(),
                ),
            }
        }
    }
}
