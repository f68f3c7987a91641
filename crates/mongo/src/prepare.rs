//! Migrates a database to the models. The structure of the collections is stored in a collection of
//! the engine and compared with the models; the steps between the two are executed one by one.
//! MongoDB cannot execute them atomically: after an interrupted start the next one continues, since
//! each step is determined again.

use std::collections::HashSet;
use std::sync::Arc;

use marmota_model::text::counted;
use marmota_model::{
    Error, ErrorKind, Field, FieldSet, Index, KeyKind, Result, Role, Table, Timestamp, Value,
    ValueRef,
};
use marmota_store::plan::{Destructive, Plan, PlanStep, StepEffect, TableChange};
use mongodb::bson::{Bson, Document, doc};

use crate::database::{Database, Find, number};
use crate::fault;
use crate::shape::{Lender, OrderPart, Shape, bson_of};

/// The collection with the structure of the collections.
const SCHEMAS: &str = "marmota_schema";
/// The collection with the last automatic keys.
pub(crate) const KEYS: &str = "marmota_key";
/// The id of the document with the version of the models, among those of the tables.
const VERSION: &str = "";

/// The structure of one collection.
struct ExistingTable {
    /// The name of the collection.
    name: String,
    fields: Vec<ExistingField>,
    key: String,
    rows: u64,
    indexes: Vec<String>,
}

struct ExistingField {
    name: String,
    form: String,
    nullable: bool,
}

/// A step of the plan, and the action for it.
struct Planned {
    step: PlanStep,
    action: StepAction,
}

/// The action for a step.
enum StepAction {
    Nothing,
    MakeCollection,
    RenameCollection(String),
    /// Renames a member of the documents.
    Rename(String, String),
    /// Sets a value in documents without this field.
    Fill(usize, Value),
    Drop(String),
    AddIndex(Index),
    DropIndex(String),
}

/// Returns true if a table with this name exists.
pub(crate) async fn has(database: &Database, name: &str) -> Result<bool> {
    database.has(SCHEMAS, doc! { "_id": name }).await
}

/// Returns the names of the user's collections, without the engine's own.
pub(crate) async fn existing(database: &Database) -> Result<Vec<String>> {
    let named = database.driver.list_collection_names().filter(doc! { "type": { "$ne": "view" } });
    let mut names = named.await.map_err(|fault| fault::of(&fault, false))?;
    names.retain(|name| name != SCHEMAS && name != KEYS && !name.starts_with("system."));
    names.sort_unstable();
    Ok(names)
}

/// Returns the necessary changes.
pub(crate) async fn plan(database: &Database, tables: &[Arc<Table>], version: u32) -> Result<Plan> {
    check_version(database, version).await?;
    let mut steps = Vec::new();
    for table in tables {
        let shape = Arc::new(Shape::new(table)?);
        let planned = compare(database, &shape, tables).await?;
        steps.extend(planned.into_iter().map(|planned| planned.step));
    }
    Ok(Plan { steps })
}

/// Executes the plan.
pub(crate) async fn migrate(
    database: &Database,
    tables: &[Arc<Table>],
    version: u32,
    destructive: &Destructive,
) -> Result<Plan> {
    check_version(database, version).await?;
    let mut all = Vec::new();
    for table in tables {
        let shape = Arc::new(Shape::new(table)?);
        let planned = compare(database, &shape, tables).await?;
        all.push((shape, planned));
    }
    let steps = all.iter().flat_map(|(_, planned)| planned).map(|one| one.step.clone()).collect();
    let plan = Plan { steps };
    plan.check(destructive)?;
    for (shape, planned) in &all {
        let of_table = Plan { steps: planned.iter().map(|one| one.step.clone()).collect() };
        let to_do: Vec<&PlanStep> = of_table.to_do(destructive).collect();
        let mut kept = Vec::new();
        for one in planned {
            if to_do.contains(&&one.step) {
                carry_out(database, shape, &one.action).await?;
            } else if let StepAction::Drop(name) = &one.action {
                kept.push(name.clone());
            }
        }
        write_down(database, shape, &kept).await?;
        count_keys(database, shape).await?;
    }
    let update = doc! { "$set": { "version": i64::from(version) } };
    upsert(database, SCHEMAS, VERSION, update).await?;
    Ok(plan)
}

async fn upsert(database: &Database, collection: &str, id: &str, update: Document) -> Result<()> {
    let statement = doc! { "q": { "_id": id }, "u": update, "upsert": true };
    let command = doc! { "update": collection, "updates": [statement] };
    database.command(&command, true).await.map(drop)
}

async fn check_version(database: &Database, version: u32) -> Result<()> {
    let Some(there) = one(database, SCHEMAS, doc! { "_id": VERSION }).await? else { return Ok(()) };
    let there = number(&there, "version");
    if there <= u64::from(version) {
        return Ok(());
    }
    let message = format!(
        "the database `{}` was written with a newer schema version ({there}; this program has \
         {version}): start the newer program or restore a backup",
        database.driver.name()
    );
    Err(Error::new(ErrorKind::Invalid, message))
}

async fn one(database: &Database, collection: &str, filter: Document) -> Result<Option<Document>> {
    let find =
        Find { collection: collection.to_owned(), filter, limit: Some(1), ..Find::default() };
    match database.fetch(&find).await?.first() {
        Some(document) => Document::try_from(document).map(Some).map_err(|error| {
            Error::new(ErrorKind::Engine, format!("`{collection}` is damaged: {error}"))
        }),
        None => Ok(None),
    }
}

impl ExistingTable {
    async fn of(database: &Database, name: &str) -> Result<Option<Self>> {
        let Some(known) = one(database, SCHEMAS, doc! { "_id": name }).await? else {
            return Self::of_others(database, name).await;
        };
        let text =
            |document: &Document, name: &str| document.get_str(name).unwrap_or_default().to_owned();
        let fields = known.get_array("fields").map_or(&[][..], Vec::as_slice);
        let fields = fields.iter().filter_map(Bson::as_document).map(|field| ExistingField {
            name: text(field, "name"),
            form: text(field, "form"),
            nullable: field.get_bool("nullable").unwrap_or(true),
        });
        Ok(Some(Self {
            fields: fields.collect(),
            key: text(&known, "key"),
            rows: database.count(name, doc! {}).await?,
            indexes: indexes(database, name).await?,
            name: name.to_owned(),
        }))
    }

    /// Returns a collection that another program made. Its members are unknown and assumed to match
    /// the model.
    async fn of_others(database: &Database, name: &str) -> Result<Option<Self>> {
        let rows = database.count(name, doc! {}).await?;
        if rows == 0 {
            return Ok(None);
        }
        let indexes = indexes(database, name).await?;
        Ok(Some(Self {
            name: name.to_owned(),
            fields: Vec::new(),
            key: String::new(),
            rows,
            indexes,
        }))
    }

    fn field(&self, name: &str) -> Option<&ExistingField> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// Returns the names of a collection's indexes.
async fn indexes(database: &Database, name: &str) -> Result<Vec<String>> {
    let command = doc! { "listIndexes": name };
    let answer = match database.command(&command, false).await {
        Ok(answer) => answer,
        // The collection does not exist yet: code 26.
        Err(error) if error.message().contains("code 26") => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let list = answer.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    let list = list.map_or(&[][..], Vec::as_slice);
    let names = list.iter().filter_map(Bson::as_document);
    Ok(names.filter_map(|index| index.get_str("name").ok()).map(str::to_owned).collect())
}

fn form_name(field: &Field, shape: &Shape, at: usize) -> String {
    let form = format!("{:?}", field.kind.form()).to_ascii_lowercase();
    match shape.columns[at].order_part {
        Some(OrderPart::Folded) => format!("{form} without case"),
        _ => form,
    }
}

/// Returns the members of an index with their direction, and its name.
fn index_keys(shape: &Shape, index: &Index) -> (Document, String) {
    let mut keys = Document::new();
    let mut name = "marmota".to_owned();
    for &field in &*index.fields {
        let column = &shape.columns[field];
        for path in column.sort_paths() {
            keys.insert(path, 1);
        }
        name.push('_');
        name.push_str(column.name.as_str());
        if column.order_part == Some(OrderPart::Folded) {
            name.push_str("_nocase");
        }
    }
    if index.unique {
        name.push_str("_unique");
    }
    (keys, name)
}

async fn compare(
    database: &Database,
    shape: &Arc<Shape>,
    tables: &[Arc<Table>],
) -> Result<Vec<Planned>> {
    let table = &shape.table;
    let mut planned = Planning { table, steps: Vec::new() };
    let mut existing = ExistingTable::of(database, table.name()).await?;
    let is_model = |name: &str| tables.iter().any(|other| other.name() == name);
    if let (None, Some(was)) =
        (&existing, table.schema().was.as_deref().filter(|was| !is_model(was)))
    {
        existing = ExistingTable::of(database, was).await?;
    }
    let Some(existing) = existing else {
        planned.add(TableChange::AddTable, StepEffect::Safe, StepAction::MakeCollection);
        for index in table.indexes() {
            planned.add_index(&index, StepEffect::Safe);
        }
        return Ok(planned.steps);
    };
    if existing.name != table.name() {
        let from = existing.name.clone();
        let action = StepAction::RenameCollection(from.clone());
        planned.add(TableChange::RenameTable { from }, StepEffect::Safe, action);
    }
    if existing.fields.is_empty() {
        planned.add_indexes(database, shape, &existing).await?;
        return Ok(planned.steps);
    }
    let key = &table.fields()[table.key()];
    let key_was = key.was.as_deref() == Some(&existing.key);
    if existing.rows > 0 && existing.key != key.name && !key_was {
        let why = format!(
            "the table has the key `{}` in the database, and `{}` in the model: the key of a table \
             cannot be changed; give the model another table name and copy the rows, or change the \
             model back",
            existing.key, key.name
        );
        planned.add(TableChange::SchemaMismatch, StepEffect::Refused(why), StepAction::Nothing);
        return Ok(planned.steps);
    }
    for (at, field) in table.fields().iter().enumerate() {
        planned.compare_field(database, shape, &existing, at, field).await?;
    }
    for field in &existing.fields {
        planned.drop_field(&existing, field);
    }
    planned.add_indexes(database, shape, &existing).await?;
    Ok(planned.steps)
}

/// The steps of one table, collected.
struct Planning<'t> {
    table: &'t Table,
    steps: Vec<Planned>,
}

impl Planning<'_> {
    fn add(&mut self, change: TableChange, effect: StepEffect, action: StepAction) {
        let (table, statements) = (self.table.name().to_owned(), Vec::new());
        self.steps.push(Planned { step: PlanStep { table, change, effect, statements }, action });
    }

    fn add_index(&mut self, index: &Index, effect: StepEffect) {
        let names = index.fields.iter().map(|&field| self.table.fields()[field].name.to_string());
        let change =
            TableChange::AddIndex { columns: names.collect(), unique: index.unique, filter: None };
        self.add(change, effect, StepAction::AddIndex(index.clone()));
    }

    async fn compare_field(
        &mut self,
        database: &Database,
        shape: &Shape,
        existing: &ExistingTable,
        at: usize,
        field: &Field,
    ) -> Result<()> {
        let name = field.name.to_string();
        let was = field.was.as_deref().and_then(|was| existing.field(was));
        let known = existing.field(&name);
        if let (None, Some(was)) = (known, was) {
            let change = TableChange::RenameColumn { from: was.name.clone(), to: name.clone() };
            let action = match at == self.table.key() {
                true => StepAction::Nothing,
                false => StepAction::Rename(was.name.clone(), name.clone()),
            };
            self.add(change, StepEffect::Safe, action);
        }
        let Some(known) = known.or(was) else {
            self.add_field(existing, at, field);
            return Ok(());
        };
        let form = form_name(field, shape, at);
        if known.form != form && existing.rows > 0 {
            let why = format!(
                "the field changes from {} to {form}; add a field with another name instead, or \
                 change it back",
                known.form
            );
            let change =
                TableChange::ChangeColumn { column: name, from: known.form.clone(), to: form };
            self.add(change, StepEffect::Refused(why), StepAction::Nothing);
        } else if known.nullable && !field.nullable && at != self.table.key() {
            let missing = doc! { known.name.as_str(): Bson::Null };
            let effect = match database.count(&existing.name, missing).await? {
                0 => StepEffect::Safe,
                nulls => StepEffect::Refused(format!(
                    "the field must have a value in the model, but has none in {} of the database: \
                     set one, or make the field optional",
                    counted(nulls, "row")
                )),
            };
            self.add(TableChange::RequireValue(name), effect, StepAction::Nothing);
        } else if !known.nullable && field.nullable {
            self.add(TableChange::AllowNull(name), StepEffect::Safe, StepAction::Nothing);
        }
        Ok(())
    }

    fn add_field(&mut self, existing: &ExistingTable, at: usize, field: &Field) {
        let default = self.table.default(at).filter(|default| !default.is_null());
        let value = match (field.role, default) {
            (_, Some(default)) => Some(default.to_value()),
            // The values that the rows would have if the field had always existed.
            (Role::Version, None) => Some(Value::Int(1)),
            (Role::CreatedAt | Role::UpdatedAt, None) => Some(Value::Timestamp(Timestamp::now())),
            _ => None,
        };
        let (effect, action) = match value {
            _ if existing.rows == 0 => (StepEffect::Safe, StepAction::Nothing),
            Some(value) => (StepEffect::Safe, StepAction::Fill(at, value)),
            None if field.nullable => (StepEffect::Safe, StepAction::Nothing),
            None => {
                let why = "the field is new and must have a value, but the table has rows: give it \
                           a default for those, or make it optional";
                (StepEffect::Refused(why.to_owned()), StepAction::Nothing)
            }
        };
        self.add(TableChange::AddColumn(field.name.to_string()), effect, action);
    }

    /// Adds the steps for a field that is not in the model: its values are kept unless they may be
    /// deleted.
    fn drop_field(&mut self, existing: &ExistingTable, field: &ExistingField) {
        let is_kept =
            |other: &Field| other.name == *field.name || other.was.as_deref() == Some(&*field.name);
        if self.table.fields().iter().any(is_kept) {
            return;
        }
        let (name, table) = (field.name.clone(), self.table.name());
        let effect = StepEffect::Destructive {
            what: format!(
                "the model has no such field; its values in up to {} would be lost",
                counted(existing.rows, "row")
            ),
            way_out: format!("add the field, or drop it (`migrate --drop {table}.{name}`)"),
            needed: false,
        };
        self.add(TableChange::DropColumn(name.clone()), effect, StepAction::Drop(name));
    }

    async fn add_indexes(
        &mut self,
        database: &Database,
        shape: &Arc<Shape>,
        existing: &ExistingTable,
    ) -> Result<()> {
        let wanted = self.table.indexes();
        let names: Vec<String> = wanted.iter().map(|index| index_keys(shape, index).1).collect();
        for name in &existing.indexes {
            if name.starts_with("marmota_") && !names.contains(name) {
                let change = TableChange::DropIndex(name.clone());
                self.add(change, StepEffect::Safe, StepAction::DropIndex(name.clone()));
            }
        }
        for (index, name) in wanted.iter().zip(&names) {
            if existing.indexes.contains(name) {
                continue;
            }
            let double = match index.unique && existing.rows > 0 {
                true => double(database, shape, existing, index).await?,
                false => None,
            };
            let effect = match double {
                None => StepEffect::Safe,
                Some(value) => {
                    let fields = index.fields.iter();
                    let names: Vec<&str> =
                        fields.map(|&field| &*self.table.fields()[field].name).collect();
                    StepEffect::Refused(format!(
                        "{} must be unique, but several rows have {value}; change or delete all \
                         but one of them",
                        names.join(", ")
                    ))
                }
            };
            self.add_index(index, effect);
        }
        Ok(())
    }
}

/// Returns a value that several rows have in fields that should be unique.
async fn double(
    database: &Database,
    shape: &Arc<Shape>,
    existing: &ExistingTable,
    index: &Index,
) -> Result<Option<String>> {
    // Fields that are to be added or renamed are not checked; creating the index does that.
    let is_there = |field: &usize| existing.field(&shape.table.fields()[*field].name).is_some();
    if !existing.fields.is_empty() && !index.fields.iter().all(is_there) {
        return Ok(None);
    }
    let fields = index.fields.iter().fold(FieldSet::EMPTY, |set, &field| set.with(field));
    let find = Find {
        collection: existing.name.clone(),
        projection: shape.projection(fields),
        ..Find::default()
    };
    let (mut lender, mut seen) = (Lender::new(shape, fields), HashSet::new());
    let mut batches = database.find(&find).await?;
    while let Some(batch) = batches.next().await? {
        let mut found = None;
        crate::database::each_document(&batch, |document| {
            lender.lend(document, |row| {
                let values: Vec<ValueRef<'_>> = index.fields.iter().map(|&at| row[at]).collect();
                if values.iter().any(ValueRef::is_null) || found.is_some() {
                    return;
                }
                let texts: Vec<String> =
                    values.iter().map(|value| marmota_model::text::excerpt_of(*value)).collect();
                let same: Vec<String> = index
                    .fields
                    .iter()
                    .zip(&values)
                    .map(|(&at, value)| match shape.columns[at].order_part(*value) {
                        Some(Bson::String(folded)) => folded,
                        _ => format!("{value:?}"),
                    })
                    .collect();
                if !seen.insert(same) {
                    found = Some(texts.join(", "));
                }
            })
        })?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

async fn carry_out(database: &Database, shape: &Shape, action: &StepAction) -> Result<()> {
    let name = shape.name();
    let all = |update: Document| {
        doc! { "update": name, "updates": [{ "q": {}, "u": update, "multi": true }] }
    };
    let command = match action {
        StepAction::Nothing => return Ok(()),
        StepAction::MakeCollection => {
            return match database.command(&doc! { "create": name }, true).await {
                // It exists and is empty: code 48.
                Err(error) if !error.message().contains("code 48") => Err(error),
                _ => Ok(()),
            };
        }
        StepAction::RenameCollection(from) => return rename_collection(database, from, name).await,
        StepAction::Rename(from, to) => {
            let (from_order, to_order) = (format!("_order.{from}"), format!("_order.{to}"));
            all(doc! { "$rename": { from: to, from_order: to_order } })
        }
        StepAction::Fill(at, value) => {
            let mut row = vec![ValueRef::Absent; shape.columns.len()];
            row[*at] = value.as_ref();
            let set = shape.update(&row).set;
            let missing = doc! { shape.columns[*at].name.as_str(): Bson::Null };
            let statement = doc! { "q": missing, "u": { "$set": set }, "multi": true };
            doc! { "update": name, "updates": [statement] }
        }
        StepAction::Drop(field) => {
            let order = format!("_order.{field}");
            all(doc! { "$unset": { field: "", order: "" } })
        }
        StepAction::DropIndex(index) => doc! { "dropIndexes": name, "index": index },
        StepAction::AddIndex(index) => return make_index(database, shape, index).await,
    };
    database.command(&command, true).await.map(drop)
}

/// Creates an index. A unique index excludes rows without a value in one of its fields: on a server
/// with partial indexes this is declared; others (FerretDB) treat missing values as distinct.
async fn make_index(database: &Database, shape: &Shape, index: &Index) -> Result<()> {
    let (keys, name) = index_keys(shape, index);
    let plain = doc! { "key": keys.clone(), "name": name };
    let command = |index: Document| doc! { "createIndexes": shape.name(), "indexes": [index] };
    if !index.unique {
        return database.command(&command(plain), true).await.map(drop);
    }
    let mut unique = plain;
    unique.insert("unique", true);
    let mut there = Document::new();
    for &field in &*index.fields {
        let column = &shape.columns[field];
        let path = match column.order_part {
            Some(OrderPart::Folded) => column.order_path(),
            _ => column.name.to_string(),
        };
        there.insert(path, doc! { "$exists": true });
    }
    let mut partial = unique.clone();
    partial.insert("partialFilterExpression", there);
    match database.command(&command(partial), true).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            database.command(&command(unique), true).await.map(drop)
        }
        done => done.map(drop),
    }
}

async fn rename_collection(database: &Database, from: &str, to: &str) -> Result<()> {
    let place = database.driver.name();
    let command = doc! {
        "renameCollection": format!("{place}.{from}"),
        "to": format!("{place}.{to}"),
    };
    let admin = database.client.database("admin");
    admin.run_command(command).await.map_err(|fault| fault::of(&fault, true))?;
    if let Some(mut keys) = one(database, KEYS, doc! { "_id": from }).await? {
        keys.remove("_id");
        upsert(database, KEYS, to, doc! { "$set": keys }).await?;
        database.delete(KEYS, doc! { "_id": from }, true).await?;
    }
    database.delete(SCHEMAS, doc! { "_id": from }, true).await.map(drop)
}

/// Stores the new structure of a collection: the model's fields, and those that were kept.
async fn write_down(database: &Database, shape: &Shape, kept: &[String]) -> Result<()> {
    let before = ExistingTable::of(database, shape.name()).await?;
    let mut fields: Vec<Document> = Vec::new();
    for (at, field) in shape.table.fields().iter().enumerate() {
        let form = form_name(field, shape, at);
        let name = &*field.name;
        fields.push(doc! { "name": name, "form": form, "nullable": field.nullable });
    }
    for field in before.iter().flat_map(|existing| &existing.fields) {
        if kept.contains(&field.name) {
            let (name, form) = (&*field.name, &*field.form);
            fields.push(doc! { "name": name, "form": form, "nullable": field.nullable });
        }
    }
    let key = &*shape.table.fields()[shape.table.key()].name;
    let update = doc! { "$set": { "fields": fields, "key": key } };
    upsert(database, SCHEMAS, shape.name(), update).await
}

/// Makes automatic keys continue after the highest existing one.
async fn count_keys(database: &Database, shape: &Shape) -> Result<()> {
    if shape.table.key_kind() != KeyKind::Auto {
        return Ok(());
    }
    let find = Find {
        collection: shape.name().to_owned(),
        sort: Some(doc! { "_id": -1 }),
        projection: Some(doc! { "_id": 1 }),
        limit: Some(1),
        ..Find::default()
    };
    let highest = database.fetch(&find).await?;
    let highest = highest.first().and_then(|document| shape.key_of(document));
    let last = highest.map_or(Bson::Int64(0), |key| bson_of(key.as_ref()));
    upsert(database, KEYS, shape.name(), doc! { "$max": { "last": last } }).await
}
