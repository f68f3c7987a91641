//! The schema, the rows and the rights of a round, and which values the user may read.

use std::fmt;
use std::fmt::Write as _;
use std::future::poll_fn;
use std::sync::Arc;

use marmota_memory::Memory;
use marmota_model::{
    Caller, Field, KeyKind, Kind, Record, Role, RowQuery, Schema, Value, parse_filter,
};
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::Store;
use marmota_store::action::block_on;
use marmota_store::change::ChangeRetention;
use marmota_store::live::LiveContent;
use marmota_store::rights::{Grant, Right, Rights};

use super::requests::RequestMaker;

/// The user of a round; owners of rows are 1 to 3.
pub(super) const USER: i64 = 1;
pub(super) const TABLES: [&str; 3] = ["team", "project", "issue"];

/// A data field: a text or a number.
#[derive(Clone, Debug)]
pub(super) struct DataField {
    pub(super) name: String,
    pub(super) is_text: bool,
    is_unique: bool,
    is_searched: bool,
    pub(super) is_nullable: bool,
}

/// A table: `id`, `owner`, a reference to the table before (`parent`), and data.
#[derive(Clone, Debug)]
pub(super) struct TablePlan {
    pub(super) name: &'static str,
    pub(super) data: Vec<DataField>,
    is_audited: bool,
    grants: Vec<GrantPlan>,
    rows: Vec<RowPlan>,
}

/// The rows of a grant.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RuleKind {
    All,
    Own,
    /// The owner is the user or 2.
    Shared,
    /// The row of `parent` is the user's.
    ByParent,
}

#[derive(Clone, Debug)]
struct GrantPlan {
    rights: Vec<Right>,
    rule: RuleKind,
    /// The names of fields; `None` for all.
    fields: Option<Vec<String>>,
}

#[derive(Clone, Debug)]
struct RowPlan {
    owner: i64,
    parent: Option<usize>,
    /// The values in both worlds: equal unless they are hidden.
    values: [Vec<Option<Value>>; 2],
    /// False if the second world does not have the row.
    is_in_both: bool,
}

/// A round.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) tables: Vec<TablePlan>,
    is_sqlite: bool,
    is_cached: bool,
}

/// One of the two stores of a round.
pub(super) struct World {
    store: Store,
    rights: Arc<Rights>,
    hidden: Vec<String>,
}

/// Makes values that occur once.
struct Markers(u64);

impl Markers {
    fn next(&mut self, is_text: bool) -> Value {
        self.0 += 1;
        match is_text {
            true => Value::Text(format!("zq{}x", 100_000 + self.0)),
            // Neither sums, averages nor increments of some lead to others.
            false => {
                let spread = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8;
                Value::Int(1_000_000_000 + i64::try_from(spread % 9_000_000_000).unwrap())
            }
        }
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}

impl GrantPlan {
    fn random(random: &mut fastrand::Rng, table: &TablePlan, is_first: bool) -> Self {
        let mut rights = vec![Right::Read];
        for right in [Right::Insert, Right::Update, Right::Delete, Right::History, Right::Refer] {
            if random.u8(..3) > 0 && right != Right::Delete {
                rights.push(right);
            }
        }
        if random.u8(..6) == 0 {
            rights.remove(0);
        }
        let rule = match random.u8(..5) {
            0 | 1 => RuleKind::All,
            2 => RuleKind::Own,
            3 => RuleKind::Shared,
            _ if is_first => RuleKind::Own,
            _ => RuleKind::ByParent,
        };
        let fields = (random.u8(..4) > 0).then(|| {
            let structure = ["owner", "parent"].map(str::to_owned);
            let structure = structure.into_iter().take(if is_first { 1 } else { 2 });
            let data = table.data.iter().map(|field| field.name.clone());
            let all = structure.filter(|_| true).chain(data);
            all.filter(|_| random.u8(..5) > 1).collect()
        });
        Self { rights, rule, fields }
    }

    fn to_grant(&self, table: &TablePlan) -> Grant {
        let grant = Grant::new(table.name, &self.rights);
        let grant = match self.rule {
            RuleKind::All => grant,
            RuleKind::Own => grant.rule("owner = @user.id"),
            RuleKind::Shared => grant.rule("owner = @user.id or owner = 2"),
            RuleKind::ByParent => grant.rule("parent.owner = @user.id"),
        };
        match &self.fields {
            None => grant,
            Some(fields) => grant.fields(fields.iter().cloned()),
        }
    }
}

impl Plan {
    pub(super) fn random(random: &mut fastrand::Rng) -> Self {
        let mut markers = Markers(0);
        let mut plan =
            Self { tables: Vec::new(), is_sqlite: random.u8(..3) == 0, is_cached: random.bool() };
        for (at, name) in TABLES.into_iter().enumerate() {
            let data = (0..random.usize(2..5)).map(|number| {
                let is_text = random.bool();
                DataField {
                    name: format!("{}{number}", if is_text { "text" } else { "number" }),
                    is_text,
                    is_unique: random.u8(..5) == 0,
                    is_searched: is_text && random.u8(..3) == 0,
                    is_nullable: random.bool(),
                }
            });
            let mut table = TablePlan {
                name,
                data: data.collect(),
                is_audited: random.u8(..3) == 0,
                grants: Vec::new(),
                rows: Vec::new(),
            };
            table.grants = (0..random.usize(1..4))
                .map(|_| GrantPlan::random(random, &table, at == 0))
                .collect();
            let parents = at.checked_sub(1).map(|parent| plan.tables[parent].rows.len());
            for _ in 0..random.usize(3..8) {
                let parent = parents.filter(|_| random.u8(..5) > 0);
                table.rows.push(RowPlan {
                    owner: random.i64(1..4),
                    parent: parent.map(|rows| random.usize(..rows)),
                    values: [Vec::new(), Vec::new()],
                    is_in_both: true,
                });
            }
            plan.tables.push(table);
        }
        plan.make_values(random, &mut markers);
        plan
    }

    /// Sets the values: hidden ones differ, and hidden rows to which nothing refers may be missing
    /// in the second world.
    fn make_values(&mut self, random: &mut fastrand::Rng, markers: &mut Markers) {
        for at in 0..self.tables.len() {
            let last = self.tables[at].rows.len() - 1;
            for row in 0..self.tables[at].rows.len() {
                for field in 0..self.tables[at].data.len() {
                    let what = self.tables[at].data[field].clone();
                    let mut make = |random: &mut fastrand::Rng| {
                        let is_null = what.is_nullable && random.u8(..4) == 0;
                        (!is_null).then(|| markers.next(what.is_text))
                    };
                    let value = make(random);
                    let other = match self.is_readable(at, row, &what.name) {
                        true => value.clone(),
                        false => make(random),
                    };
                    let values = &mut self.tables[at].rows[row].values;
                    values[0].push(value);
                    values[1].push(other);
                }
                let is_referred_to = self
                    .tables
                    .get(at + 1)
                    .is_some_and(|child| child.rows.iter().any(|child| child.parent == Some(row)));
                // The right to refer to a row reveals whether it exists.
                let may_refer = |grant: &GrantPlan| grant.rights.contains(&Right::Refer);
                let is_referable = self.tables[at].grants.iter().any(may_refer);
                // The keys of later rows, and of entries of the history, must not depend on it.
                let is_dropped = row != last
                    && !is_referred_to
                    && !is_referable
                    && self.tables.iter().all(|table| !table.is_audited)
                    && self.reading(at, row).is_empty()
                    && random.bool();
                self.tables[at].rows[row].is_in_both = !is_dropped;
            }
        }
    }

    /// Returns the grants by which the user may read a row.
    fn reading(&self, table: usize, row: usize) -> Vec<&GrantPlan> {
        let (of, row) = (&self.tables[table], &self.tables[table].rows[row]);
        let selects = |rule: RuleKind| match rule {
            RuleKind::All => true,
            RuleKind::Own => row.owner == USER,
            RuleKind::Shared => row.owner == USER || row.owner == 2,
            RuleKind::ByParent => {
                row.parent.is_some_and(|parent| self.tables[table - 1].rows[parent].owner == USER)
            }
        };
        let reads = |grant: &&GrantPlan| grant.rights.contains(&Right::Read);
        of.grants.iter().filter(reads).filter(|grant| selects(grant.rule)).collect()
    }

    fn is_readable(&self, table: usize, row: usize, field: &str) -> bool {
        self.reading(table, row).iter().any(|grant| {
            grant.fields.as_ref().is_none_or(|fields| fields.iter().any(|name| name == field))
        })
    }

    /// Opens a store with the rows of a world.
    pub(super) fn world(&self, world: usize) -> World {
        let builder = match self.is_sqlite {
            true => {
                Store::builder(Sqlite::open(Location::Memory, SqliteOptions::default()).unwrap())
            }
            false => Store::builder(Memory::new()),
        };
        let mut builder = builder.changes(ChangeRetention::default());
        if self.is_cached {
            builder = builder.cache(1 << 20);
        }
        for (at, table) in self.tables.iter().enumerate() {
            let mut fields =
                vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("owner", Kind::I64)];
            if let Some(parent) = at.checked_sub(1) {
                let kind = Kind::Reference { table: TABLES[parent].into(), key: KeyKind::Auto };
                fields.push(Field::new("parent", kind).nullable(true));
            }
            fields.extend(table.data.iter().map(|field| {
                let kind = if field.is_text { Kind::TEXT } else { Kind::I64 };
                let mut made = Field::new("", kind)
                    .nullable(field.is_nullable)
                    .unique(field.is_unique)
                    .search(field.is_searched);
                made.name = field.name.clone().into();
                made
            }));
            builder = builder.schema(Schema::new(table.name, fields).audit(table.is_audited));
        }
        let store = builder.open().unwrap();
        let mut hidden = Vec::new();
        for (at, plan) in self.tables.iter().enumerate() {
            let table = store.table(plan.name).unwrap();
            for (number, row) in plan.rows.iter().enumerate() {
                if world == 1 && !row.is_in_both {
                    continue;
                }
                let mut record = Record::new(Arc::clone(&table));
                record.set("id", i64::try_from(number + 1).unwrap()).unwrap();
                record.set("owner", row.owner).unwrap();
                if let Some(parent) = row.parent {
                    record.set("parent", i64::try_from(parent + 1).unwrap()).unwrap();
                }
                for (field, value) in plan.data.iter().zip(&row.values[world]) {
                    let Some(value) = value else { continue };
                    record.set(&field.name, value.clone()).unwrap();
                    if !self.is_readable(at, number, &field.name) {
                        hidden.push(text_of(value));
                    }
                }
                store.insert_record(&record).run().unwrap();
            }
        }
        let caller = Caller { id: USER.to_string(), name: "ann".to_owned(), groups: Vec::new() };
        let grants = self.tables.iter();
        let grants = grants.flat_map(|table| table.grants.iter().map(|one| one.to_grant(table)));
        let grants: Vec<Grant> = grants.collect();
        let rights = Rights::new(store.registry(), Some(caller), &grants).unwrap();
        World { store, rights, hidden }
    }

    /// Returns the values of a field in the first world, some of which are hidden.
    pub(super) fn values(&self, table: usize, field: usize) -> Vec<&Value> {
        let rows = self.tables[table].rows.iter();
        rows.filter_map(|row| row.values[0][field].as_ref()).collect()
    }
}

impl World {
    /// Returns the store with the rights of the user.
    pub(super) fn user_store(&self) -> Store {
        self.store.with_rights(Arc::clone(&self.rights))
    }

    pub(super) fn hidden_markers(&self) -> &[String] {
        &self.hidden
    }

    /// Checks that the updates of a live query have no hidden value, while hidden values change.
    pub(super) fn check_live(
        &self,
        plan: &Plan,
        maker: &mut RequestMaker,
        random: &mut fastrand::Rng,
        seed: u64,
    ) {
        let (at, user) = (random.usize(..TABLES.len()), self.user_store());
        let Ok(table) = user.exposed_table(TABLES[at]) else { return };
        let mut query = RowQuery::new();
        if random.bool() {
            let text = maker.condition(at, random, 0);
            let filter = parse_filter(table, &text).and_then(|filter| filter.into_expr_for(table));
            query.filter = filter.ok();
        }
        let Ok(mut rows) = block_on(user.live_rows(table, query, true, None)) else { return };
        let mut next = || {
            let mut futile = 0;
            block_on(poll_fn(|context| match rows.poll_next(context) {
                std::task::Poll::Pending if futile < 20 => {
                    futile += 1;
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    context.waker().wake_by_ref();
                    std::task::Poll::Pending
                }
                std::task::Poll::Pending => std::task::Poll::Ready(None),
                std::task::Poll::Ready(update) => std::task::Poll::Ready(update.unwrap()),
            }))
        };
        let Some(first) = next() else { return };
        assert!(matches!(first.content, LiveContent::Snapshot(_)));
        let mut texts = format!("{:?}", first.content);
        let mut secrets = self.hidden.clone();
        for (number, row) in plan.tables[at].rows.iter().enumerate() {
            let key = i64::try_from(number + 1).unwrap();
            for field in &plan.tables[at].data {
                if plan.is_readable(at, number, &field.name) || !row.is_in_both {
                    continue;
                }
                let mut record = Record::new(self.store.table(TABLES[at]).unwrap());
                let secret = format!("{}{key}", random.u32(10_000_000..99_999_999));
                match field.is_text {
                    true => record.set(&field.name, format!("zq{secret}x")).unwrap(),
                    false => record.set(&field.name, secret.parse::<i64>().unwrap()).unwrap(),
                };
                if self.store.update_record(key, &record).run().is_ok() {
                    secrets.push(secret);
                }
            }
        }
        while let Some(update) = next() {
            write!(texts, "{:?}", update.content).unwrap();
        }
        for secret in secrets {
            assert!(
                !texts.contains(&secret),
                "live: {secret} in {texts}\nLEAK_SEED={seed}\n{plan}"
            );
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for table in &self.tables {
            writeln!(f, "{}: audited: {}", table.name, table.is_audited)?;
            for field in &table.data {
                writeln!(f, "  {field:?}")?;
            }
            for grant in &table.grants {
                writeln!(f, "  {:?}", grant.to_grant(table))?;
            }
            for (at, row) in table.rows.iter().enumerate() {
                writeln!(f, "  {}: {row:?}", at + 1)?;
            }
        }
        Ok(())
    }
}
