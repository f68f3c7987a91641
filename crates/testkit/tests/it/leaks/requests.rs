//! Random requests of a user: reads and writes on every route, often about hidden values.

use marmota_http::{Method, TestRequest};
use marmota_model::Value;
use serde_json::{Map, Value as Json, json};

use super::world::{DataField, Plan, TABLES, USER};

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Request {
    method: Method,
    target: String,
    body: Option<Json>,
}

impl Request {
    pub(super) fn to_http(&self) -> TestRequest {
        let request = TestRequest::new(self.method, self.target.clone());
        match &self.body {
            None => request,
            Some(body) => request.header("content-type", "application/json").body(body.to_string()),
        }
    }

    /// Returns what the request contains, which its answer may repeat.
    pub(super) fn text(&self) -> String {
        format!("{} {}", self.target, self.body.as_ref().map(Json::to_string).unwrap_or_default())
    }
}

/// Makes the requests of a round.
pub(super) struct RequestMaker {
    plan: Plan,
    /// The number of values made for writes, which occur nowhere else.
    made: u64,
}

fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b',' | b'.' | b'(' | b')' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

impl RequestMaker {
    pub(super) fn new(plan: &Plan) -> Self {
        Self { plan: plan.clone(), made: 0 }
    }

    fn data<'p>(&'p self, table: usize, random: &mut fastrand::Rng) -> (usize, &'p DataField) {
        let data = &self.plan.tables[table].data;
        let at = random.usize(..data.len());
        (at, &data[at])
    }

    fn field(&self, table: usize, random: &mut fastrand::Rng) -> String {
        match random.u8(..8) {
            0 => "id".to_owned(),
            1 => "owner".to_owned(),
            2 if table > 0 => "parent".to_owned(),
            3 if random.u8(..4) == 0 => "nothing".to_owned(),
            _ => self.data(table, random).1.name.clone(),
        }
    }

    /// Returns a literal: often a value of the field in the first world.
    fn literal(&self, table: usize, field: usize, random: &mut fastrand::Rng) -> String {
        let is_text = self.plan.tables[table].data[field].is_text;
        let values = self.plan.values(table, field);
        match (values.is_empty() || random.u8(..4) == 0, is_text) {
            (true, true) => "'zq100000x'".to_owned(),
            (true, false) => "7300005".to_owned(),
            _ => match values[random.usize(..values.len())] {
                Value::Text(text) => format!("'{text}'"),
                Value::Int(number) => number.to_string(),
                other => format!("{other:?}"),
            },
        }
    }

    pub(super) fn condition(
        &self,
        table: usize,
        random: &mut fastrand::Rng,
        depth: usize,
    ) -> String {
        if depth < 3 && random.u8(..3) == 0 {
            let mut inner = |table: usize| self.condition(table, random, depth + 1);
            let (one, two) = (inner(table), inner(table));
            return match random.u8(..6) {
                0 => format!("not ({one})"),
                1 => format!("({one}) and ({two})"),
                2 => format!("({one}) or ({two})"),
                3 if table < 2 => {
                    let inner = self.condition(table + 1, random, depth + 1);
                    let word = ["any", "none"][random.usize(..2)];
                    format!("{word}({}, {inner})", TABLES[table + 1])
                }
                4 if table < 2 => {
                    let inner = self.condition(table + 1, random, depth + 1);
                    format!("count({}, {inner}) > {}", TABLES[table + 1], random.u8(..3))
                }
                5 if table > 0 => {
                    let (at, field) = self.data(table - 1, random);
                    format!("parent.{} = {}", field.name, self.literal(table - 1, at, random))
                }
                _ => one,
            };
        }
        let (at, field) = self.data(table, random);
        let (name, value) = (&field.name, self.literal(table, at, random));
        match random.u8(..9) {
            0 => format!("owner = {}", random.u8(1..4)),
            1 if table > 0 => format!("parent = {}", random.u8(1..8)),
            2 => format!("{name} = null"),
            3 => format!("{name} > {value}"),
            4 => format!("{name} in ({value}, {value})"),
            5 if field.is_text => format!("{name} ~ {value}"),
            6 if field.is_text => format!("@ {value}"),
            7 if field.is_text => format!("{name} @ {value}"),
            _ => format!("{name} = {value}"),
        }
    }

    fn names(&self, table: usize, random: &mut fastrand::Rng) -> String {
        let count = random.usize(1..4);
        let names: Vec<String> = (0..count).map(|_| self.field(table, random)).collect();
        names.join(",")
    }

    fn expand(&self, table: usize, random: &mut fastrand::Rng) -> String {
        let (target, name) = match (table, random.bool()) {
            (0, _) | (1, true) => (table + 1, TABLES[table + 1]),
            _ => (table - 1, "parent"),
        };
        match random.u8(..4) {
            0 => format!("{name}(fields={})", self.names(target, random)),
            1 => format!("{name}(filter={})", encoded(&self.condition(target, random, 2))),
            2 if name != "parent" => format!("{name}(order={})", self.field(target, random)),
            _ => name.to_owned(),
        }
    }

    fn list(&self, table: usize, random: &mut fastrand::Rng) -> String {
        let mut query: Vec<String> = Vec::new();
        if random.u8(..3) > 0 {
            query.push(format!("filter={}", encoded(&self.condition(table, random, 0))));
        }
        if random.u8(..3) == 0 {
            let minus = ["", "-"][random.usize(..2)];
            query.push(match random.u8(..5) {
                0 => "order=rank".to_owned(),
                1 if table > 0 => format!("order={minus}parent.{}", self.field(table - 1, random)),
                _ => format!("order={minus}{}", self.names(table, random)),
            });
        }
        if random.u8(..3) == 0 {
            query.push(format!("fields={}", self.names(table, random)));
        }
        if random.u8(..3) == 0 {
            query.push(format!("limit={}", random.u8(1..4)));
        }
        if random.u8(..4) == 0 {
            query.push("count=true".to_owned());
        }
        if random.u8(..4) == 0 {
            query.push(format!("expand={}", self.expand(table, random)));
        }
        if random.u8(..8) == 0 {
            query.push(format!("snippet={}", self.field(table, random)));
        }
        if random.u8(..6) == 0 {
            let (at, field) = self.data(table, random);
            let literal = self.literal(table, at, random);
            query.push(format!("{}={}", field.name, literal.trim_matches('\'')));
        }
        query.join("&")
    }

    fn groups(&self, table: usize, random: &mut fastrand::Rng) -> String {
        let by = match random.u8(..3) {
            0 if table > 0 => format!("parent.{}", self.field(table - 1, random)),
            _ => self.field(table, random).to_owned(),
        };
        let mut query = vec![format!("group={by}")];
        if random.bool() {
            let function = ["sum", "max", "min", "count", "avg"][random.usize(..5)];
            query.push(format!("select=count,{function}({})", self.field(table, random)));
        }
        if random.u8(..3) == 0 {
            query.push(format!("filter={}", encoded(&self.condition(table, random, 1))));
        }
        if random.u8(..4) == 0 {
            query.push("having=count+>+1".to_owned());
        }
        query.join("&")
    }

    /// Returns a row to be written. Its new values are not those of other rows; the fields that
    /// rules use are only set by inserts.
    fn row(&mut self, table: usize, is_insert: bool, random: &mut fastrand::Rng) -> Json {
        let mut row = Map::new();
        for field in &self.plan.tables[table].data {
            if random.u8(..4) == 0 || is_insert && !field.is_nullable && random.u8(..4) > 0 {
                self.made += 1;
                let value = match field.is_text {
                    true => json!(format!("new{}", self.made)),
                    false => json!(1000 + self.made),
                };
                row.insert(field.name.clone(), value);
            }
        }
        if is_insert {
            row.insert("owner".to_owned(), json!(random.i64(1..4).min(USER + 1)));
        }
        if is_insert && table > 0 && random.bool() {
            row.insert("parent".to_owned(), json!(random.u8(1..8)));
        }
        if random.u8(..12) == 0 {
            row.insert("nothing".to_owned(), json!(1));
        }
        Json::Object(row)
    }

    /// Returns a row, sometimes with new related rows.
    fn nested(&mut self, table: usize, is_insert: bool, random: &mut fastrand::Rng) -> Json {
        let mut row = self.row(table, is_insert, random);
        if table < 2 && random.u8(..4) == 0 {
            row[TABLES[table + 1]] = json!([self.row(table + 1, true, random)]);
        }
        if is_insert && table > 0 && random.u8(..4) == 0 {
            row["parent"] = self.row(table - 1, true, random);
        }
        row
    }

    /// Returns the next request.
    pub(super) fn next(&mut self, random: &mut fastrand::Rng) -> Request {
        let at = random.usize(..TABLES.len());
        let (table, key) = (TABLES[at], random.u8(1..9));
        let read = |target: String| Request { method: Method::Get, target, body: None };
        match random.u8(..20) {
            0..=7 => read(format!("/api/{table}?{}", self.list(at, random))),
            8 => read(format!("/api/{table}?{}", self.groups(at, random))),
            9 => Request {
                method: Method::Head,
                ..read(format!("/api/{table}?{}", self.list(at, random)))
            },
            10 => read(format!("/api/{table}/{key}")),
            11 => read(format!("/api/{table}/{key}?fields={}", self.names(at, random))),
            12 => read(format!("/api/{table}/{key}?expand={}", self.expand(at, random))),
            13 => {
                let columns = "fields=id,of_key,action,fields";
                let more = match random.u8(..4) {
                    0 => {
                        let (number, field) = self.data(at, random);
                        let literal = self.literal(at, number, random);
                        let filter = format!("fields.{} = {literal}", field.name);
                        format!("&filter={}", encoded(&filter))
                    }
                    1 => "&order=-id&limit=1".to_owned(),
                    _ => String::new(),
                };
                read(format!("/api/{table}/{key}/history?{columns}{more}"))
            }
            14 => Request {
                method: Method::Post,
                target: format!("/api/{table}"),
                body: Some(self.nested(at, true, random)),
            },
            15 => Request {
                method: Method::Patch,
                target: format!("/api/{table}/{key}"),
                body: Some(self.nested(at, false, random)),
            },
            16 => Request {
                method: Method::Put,
                target: format!("/api/{table}/{key}"),
                body: Some(self.put(at, random)),
            },
            17 => {
                let field = self.field(at, random);
                Request {
                    method: Method::Post,
                    target: format!("/api/{table}/{key}/{field}/increment"),
                    body: Some(json!({ "by": 1 })),
                }
            }
            18 => {
                let operations = (0..random.usize(1..4)).map(|_| {
                    let at = random.usize(..TABLES.len());
                    let (table, key) = (TABLES[at], random.u8(1..9));
                    match random.u8(..3) {
                        0 => json!({ "insert": table, "row": self.row(at, true, random) }),
                        1 => {
                            let row = self.row(at, false, random);
                            json!({ "patch": table, "key": key, "row": row })
                        }
                        _ => json!({ "update": table, "key": key, "row": self.put(at, random) }),
                    }
                });
                let operations: Vec<Json> = operations.collect();
                let mode = ["all", "each"][random.usize(..2)];
                Request {
                    method: Method::Post,
                    target: "/api/batch".to_owned(),
                    body: Some(json!({ "mode": mode, "operations": operations })),
                }
            }
            _ => read(["/api", "/api/openapi.json"][random.usize(..2)].to_owned()),
        }
    }

    /// Returns a whole row without the fields that rules use, so that a PUT that would set them to
    /// their default is refused: `owner` is required.
    fn put(&mut self, table: usize, random: &mut fastrand::Rng) -> Json {
        self.row(table, false, random)
    }
}
