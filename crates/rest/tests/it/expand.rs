//! Rows with the rows that they are related to.

use marmota_http::{RunningServer, Server};
use marmota_memory::Memory;
use marmota_model::{Field, KeyKind, Kind, Relation, Role, Schema};
use marmota_rest::Api;
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::engine::Engine;
use marmota_store::rights::{Grant, Right, Rights};
use marmota_store::{Store, meter};
use serde_json::{Value, json};

use crate::client::Client;
use crate::slow::slow;

fn schema(name: &'static str, fields: &[(&'static str, &'static str)]) -> Schema {
    let kind = |table: &'static str| match table {
        "" => Kind::TEXT,
        table => Kind::Reference { table: table.into(), key: KeyKind::Auto },
    };
    let mut all = vec![Field::new("id", Kind::I64).role(Role::Key)];
    all.extend(
        fields
            .iter()
            .map(|&(name, table)| Field::new(name, kind(table)).nullable(!table.is_empty())),
    );
    Schema::new(name, all)
}

fn open(engine: impl Engine + 'static) -> Store {
    let issue = schema("issue", &[("title", ""), ("assignee", "person")]);
    let issue = issue.relations(vec![Relation::new("labels", "issue_label.label")]);
    let store = Store::builder(engine)
        .metering(meter::Metering::default())
        .schema(schema("team", &[("name", "")]))
        .schema(schema("person", &[("name", ""), ("team", "team"), ("boss", "person")]))
        .schema(issue)
        .schema(schema("label", &[("name", "")]))
        .schema(schema("issue_label", &[("issue", "issue"), ("label", "label")]))
        .schema(schema("comment", &[("text", ""), ("issue", "issue"), ("author", "person")]))
        .open()
        .unwrap();
    let insert = |table: &str, rows: &[&[Value]]| {
        let table = store.table(table).unwrap();
        for row in rows {
            let mut record = marmota_model::Record::new(table.clone());
            for (field, value) in table.fields()[1..].iter().zip(*row) {
                match value {
                    Value::String(text) => record.set(&field.name, &**text).unwrap(),
                    Value::Null => {}
                    number => record.set(&field.name, number.as_i64().unwrap()).unwrap(),
                };
            }
            store.insert_record(&record).run().unwrap();
        }
    };
    insert("team", &[&[json!("Core")]]);
    insert(
        "person",
        &[
            &[json!("Ann"), json!(1)],
            &[json!("Bob"), json!(1), json!(1)],
            &[json!("Cid"), Value::Null, json!(2)],
        ],
    );
    insert(
        "issue",
        &[
            &[json!("a"), json!(2)],
            &[json!("b"), Value::Null],
            &[json!("c"), json!(2)],
            &[json!("d"), json!(3)],
        ],
    );
    insert("label", &[&[json!("x")], &[json!("y")], &[json!("z")]]);
    for (issue, label) in [(1, 3), (1, 1), (3, 2), (3, 1)] {
        insert("issue_label", &[&[json!(issue), json!(label)]]);
    }
    for (text, issue, author) in [("1", 1, 1), ("2", 1, 2), ("3", 3, 1), ("4", 1, 3), ("5", 1, 1)] {
        insert("comment", &[&[json!(text), json!(issue), json!(author)]]);
    }
    store
}

fn serve(store: &Store) -> RunningServer {
    let api = Api::new(store).page_rows_max(50);
    Server::bind("127.0.0.1:0").unwrap().listeners(1).start(api.router()).unwrap()
}

fn on_every_engine(test: impl Fn(&Store, &mut Client)) {
    let sqlite = || Sqlite::open(Location::Memory, SqliteOptions::default()).unwrap();
    let stores = [open(Memory::new()), open(slow(Memory::new())), open(sqlite())];
    for store in stores {
        let server = serve(&store);
        test(&store, &mut Client::new(server.local_addr()));
    }
}

fn rows(client: &mut Client, target: &str) -> Value {
    client.get(target).is(200).value()["rows"].clone()
}

#[test]
fn rows_come_with_their_related_rows() {
    on_every_engine(|_, client| {
        for (target, wanted) in [
            (
                "/api/issue?fields=id&limit=2&expand=assignee(fields=name)",
                json!([
                    { "id": 1, "expand": { "assignee": { "name": "Bob" } } },
                    { "id": 2, "expand": { "assignee": null } },
                ]),
            ),
            (
                "/api/issue?fields=title&id=1&expand=comment(fields=text,order=-id,limit=2)",
                json!([{ "title": "a", "expand": {
                    "comment": [{ "text": "5" }, { "text": "4" }] } }]),
            ),
            (
                "/api/issue?fields=id&filter=id+in+(1,2,3)\
                 &expand=labels(fields=name,order=-name,limit=1)",
                json!([
                    { "id": 1, "expand": { "labels": [{ "name": "z" }] } },
                    { "id": 2, "expand": { "labels": [] } },
                    { "id": 3, "expand": { "labels": [{ "name": "y" }] } },
                ]),
            ),
            (
                "/api/issue?fields=id&id=1&expand=comment(fields=id,filter=author+!=+1,\
                 expand=author(fields=name,expand=team(fields=name)))",
                json!([{ "id": 1, "expand": { "comment": [
                    { "id": 2, "expand": { "author": { "name": "Bob",
                        "expand": { "team": { "name": "Core" } } } } },
                    { "id": 4, "expand": { "author": { "name": "Cid",
                        "expand": { "team": null } } } },
                ] } }]),
            ),
            (
                "/api/issue?fields=id&id=1&expand=comment(fields=id,filter=author.name='Bob'),\
                 labels(fields=id,filter=any(issue_label,issue=3))",
                json!([{ "id": 1, "expand": {
                    "comment": [{ "id": 2 }], "labels": [{ "id": 1 }] } }]),
            ),
            (
                "/api/issue?group=assignee&select=count&filter=assignee.name='Bob'",
                json!([{ "assignee": 2, "count": 2 }]),
            ),
            (
                "/api/person?fields=name&id=2&expand=boss(fields=name),person:boss(fields=name)",
                json!([{ "name": "Bob", "expand": {
                    "boss": { "name": "Ann" }, "person:boss": [{ "name": "Cid" }] } }]),
            ),
            (
                "/api/issue?fields=id&id=4&expand=assignee.boss.team(fields=name)",
                json!([{ "id": 4, "expand": { "assignee.boss.team": { "name": "Core" } } }]),
            ),
        ] {
            assert_eq!(rows(client, target), wanted, "{target}");
        }
        let one = client.get("/api/issue/3?fields=id&expand=labels(fields=id)").is(200);
        assert_eq!(one.text(), r#"{"id":3,"expand":{"labels":[{"id":1},{"id":2}]}}"#);
        assert_eq!(one.header("etag"), None);
        client.get("/api/issue/9?expand=labels").refuses(404);
        let page = client.get("/api/issue?limit=1&expand=assignee").is(200).value();
        let next = page["next"].as_str().unwrap().to_owned();
        assert_eq!(rows(client, &next)[0]["expand"]["assignee"], Value::Null);
    });
}

#[test]
fn a_relation_is_read_by_one_operation_for_all_rows() {
    on_every_engine(|store, client| {
        let count =
            || -> u64 { store.activity().unwrap().verbs.iter().map(|verb| verb.done.count).sum() };
        let before = count();
        client.get("/api/issue?expand=assignee(expand=team),comment(limit=1),labels").is(200);
        // The list, one for each of three relations and the two steps of `labels`.
        assert_eq!(count() - before, 6);
    });
}

#[test]
fn bad_relations_are_refused_with_their_place() {
    on_every_engine(|_, client| {
        for (expand, says) in [
            ("lables", "no relation `lables`"),
            ("", "no relation"),
            ("title", "no relation `title`"),
            ("assignee(expand=taem)", "no relation `taem`"),
            ("assignee(expand=taem)", "assignee.taem"),
            ("assignee(fields=nme)", "no such field"),
            ("assignee(filter=nme='x')", "no such field"),
            ("assignee(limit=1)", "neither `order` nor `limit`"),
            ("comment(limit=0)", "between 1 and 50"),
            ("comment(limit=51)", "between 1 and 50"),
            ("comment(limit=x)", "between 1 and 50"),
            ("comment(order=txt)", "no such field"),
            ("comment(max=3)", "is not an option"),
            ("comment(limit=1,limit=2)", "only once"),
            ("comment", ""),
            ("comment,comment", "twice"),
            ("comment(", "`(` without `)`"),
            ("comment(limit=1)x", "must end with `)`"),
            ("comment)", "`)` without `(`"),
            ("comment(expand=issue)", "leads back to the rows of `issue`"),
            ("assignee(expand=boss(expand=boss(expand=boss)))", "at most 3 levels"),
            ("assignee.boss.boss.boss.boss", "more than 4 steps"),
        ] {
            let answer = client.get(&format!("/api/issue?expand={expand}"));
            match says {
                "" => drop(answer.is(200)),
                says => drop(answer.refuses(400).says(says)),
            }
        }
        let many: Vec<String> = ["assignee", "comment", "labels", "issue_label"]
            .iter()
            .map(|name| match *name {
                "comment" => "comment(expand=author(expand=team,boss,comment))".to_owned(),
                "assignee" => "assignee(expand=team,boss,comment,person:boss)".to_owned(),
                name => name.to_owned(),
            })
            .collect();
        let many = many.join(",");
        client.get(&format!("/api/issue?expand={many}")).refuses(400).says("at most 10 relations");
        client.get("/api/issue?expand=comment&expand=labels").names(400, "expand", "twice");
        client.get("/api/issue/1?expand=lables").refuses(400);
        let lines = ["Accept: application/x-ndjson"];
        let lines = client.send("GET /api/issue?expand=comment", &lines, b"");
        lines.names(400, "expand", "unknown");
    });
}

#[test]
fn the_product_of_relations_is_limited() {
    let store = open(Memory::new());
    let issue = store.table("issue").unwrap();
    let mut rows = Vec::new();
    for _ in 0..60 {
        let mut record = marmota_model::Record::new(issue.clone());
        record.set("title", "x").unwrap();
        record.set("assignee", 1_i64).unwrap();
        rows.push(record);
    }
    for row in &rows {
        store.insert_record(row).run().unwrap();
    }
    let server = serve(&store);
    let client = &mut Client::new(server.local_addr());
    let target = "/api/issue?limit=50&filter=assignee=1\
                  &expand=assignee(expand=issue(limit=50,expand=assignee(expand=issue)))";
    client.get(target).refuses(400);
    let target = "/api/issue?limit=50&filter=assignee=1\
                  &expand=assignee(expand=issue(limit=50,expand=comment,labels,issue_label))";
    client.get(target).is(200);
    let target = "/api/issue?limit=50&filter=assignee=1\
                  &expand=assignee.issue(limit=50,expand=assignee.issue(limit=50))";
    client.get(target).refuses(400).says("at most 10000 related rows");
}

#[test]
fn rows_that_the_caller_may_not_read_are_left_out() {
    let store = open(Memory::new());
    let grants = [
        Grant::new("issue", &[Right::Read]),
        Grant::new("person", &[Right::Read]).rule("name = 'Cid'"),
        Grant::new("issue_label", &[Right::Read]),
    ];
    let rights = Rights::new(store.registry(), None, &grants).unwrap();
    let server = serve(&store.with_rights(rights));
    let client = &mut Client::new(server.local_addr());
    let target = "/api/issue?fields=id&filter=id+in+(1,4)\
                  &expand=assignee(fields=name),comment,labels";
    let none = json!([]);
    assert_eq!(
        rows(client, target),
        json!([
            { "id": 1, "expand": { "assignee": null, "comment": none, "labels": none } },
            { "id": 4, "expand": { "assignee": { "name": "Cid" }, "comment": none, "labels": none } },
        ])
    );
}

#[test]
fn rows_are_grouped_by_fields_of_related_rows() {
    on_every_engine(|_, client| {
        for (target, groups) in [
            (
                "/api/comment?group=author.team.name&select=count",
                json!([
                    { "author_team_name": null, "count": 1 },
                    { "author_team_name": "Core", "count": 4 },
                ]),
            ),
            (
                "/api/comment?group=issue.assignee.name,author.name&select=count\
                 &having=author_name = 'Ann'&order=-count",
                json!([
                    { "issue_assignee_name": "Bob", "author_name": "Ann", "count": 3 },
                ]),
            ),
            (
                "/api/issue?group=assignee.boss.name&select=count,max(title)&limit=2&order=-count,assignee_boss_name",
                json!([
                    { "assignee_boss_name": "Ann", "count": 2, "max_title": "c" },
                    { "assignee_boss_name": null, "count": 1, "max_title": "b" },
                ]),
            ),
        ] {
            assert_eq!(rows(client, &target.replace(' ', "%20")), groups, "{target}");
        }
        for (target, part) in [
            ("/api/issue?group=labels.name&select=count", "references only"),
            ("/api/issue?group=assignee.nam&select=count", "no such field"),
            ("/api/issue?group=title.name&select=count", "title"),
            ("/api/issue?group=assignee.name,assignee.name&select=count", "twice"),
        ] {
            let refused = client.get(target).refuses(400);
            assert!(refused.text().contains(part), "{target}: {}", refused.text());
        }
    });
}
